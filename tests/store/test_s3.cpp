// The S3 remote's parts: signatures against Amazon's published figures, profiles, endpoints, the catalogue, answers.
// tests/cli/test_s3.sh tests the whole remote.
#include <algorithm>

#include "fixture.h"
#include "store/format/pack_format.h"
#include "store/remote/s3/answer.h"
#include "store/remote/s3/catalogue.h"
#include "store/remote/s3/profile.h"
#include "store/remote/s3/settings.h"
#include "store/remote/s3/sigv4.h"

using namespace mlx;
using namespace mlx::store;
using namespace mlx::store::s3;

namespace {

const char* const kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string signature_of(const std::string& authorization) {
  return authorization.substr(authorization.rfind('=') + 1);
}

// "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)", Amazon S3 API Reference.
std::string sign_example(SignedParts parts) {
  parts.headers.emplace_back("Host", "examplebucket.s3.amazonaws.com");
  parts.headers.emplace_back("x-amz-content-sha256", parts.payload_hash);
  parts.headers.emplace_back("x-amz-date", "20130524T000000Z");
  const Credentials keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  return authorization(parts, keys, "us-east-1", "s3", "20130524T000000Z");
}

struct World {
  TempFolder temp;
  std::map<std::string, std::string> variables;
  World() { make_folders(temp.path() + "/.aws"); }
  Settings settings(const std::string& url = "s3://bucket/a/b") const {
    Environment environment;
    environment.home = temp.path();
    environment.variable = [&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    return resolve_settings(url, environment);
  }
  void write(const std::string& name, std::string_view text) const {
    write_test_file(temp.path() + "/.aws/" + name, as_bytes(text));
  }
};

HttpResponse answer(int status, std::string_view body, std::map<std::string, std::string> headers = {}) {
  return {status, std::move(headers), to_bytes(body)};
}

std::string error_text(const HttpResponse& response, std::int64_t clock = 0) {
  const Error error = error_of(response, parse_problem(response.body), "s3://b/k", clock);
  return fmt::format("{} {}", static_cast<int>(error.kind), error.message);
}

}  // namespace

TEST_CASE("s3: signatures are those of Amazon's examples") {
  const std::string get = sign_example({"GET", "/test.txt", "", {{"Range", "bytes=0-9"}}, kEmpty});
  CHECK(get ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  const std::string put =
      sign_example({"PUT",
                    "/" + percent_encode("test$file.text", true),
                    "",
                    {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                    Digest::of("Welcome to Amazon S3.").hex()});
  CHECK(signature_of(put) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  CHECK(signature_of(sign_example({"GET", "/", "lifecycle", {}, kEmpty})) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  CHECK(signature_of(sign_example({"GET", "/", "prefix=J&max-keys=2", {}, kEmpty})) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("s3: signatures are those of Amazon's test suite") {
  const Credentials keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
  const std::vector<Header> headers{{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}};
  const auto sign = [&](const std::string& method, const std::string& query, const std::vector<Header>& more = {}) {
    SignedParts parts{method, "/", query, headers, kEmpty};
    parts.headers.insert(parts.headers.end(), more.begin(), more.end());
    return signature_of(authorization(parts, keys, "us-east-1", "service", "20150830T123600Z"));
  };
  CHECK(sign("GET", "") == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  CHECK(sign("POST", "") == "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
  CHECK(sign("GET", "Param2=value2&Param1=value1") ==
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  // get-header-value-trim
  CHECK(sign("GET", "", {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}) ==
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
}

TEST_CASE("s3: dates and percent-encoding") {
  CHECK(amz_date(1'369'353'600'000'000) == "20130524T000000Z");
  CHECK(parse_http_date("Fri, 24 May 2013 00:00:00 GMT") == 1'369'353'600);
  CHECK(parse_http_date("yesterday") == -1);
  CHECK(percent_encode("a b/ü~*", true) == "a%20b/%C3%BC~%2A");
  CHECK(percent_encode("a/b", false) == "a%2Fb");
}

TEST_CASE("s3: profile files") {
  const Sections sections = parse_profiles(
      "\xef\xbb\xbf# comment\n[default]\nregion = eu-west-1 # here\nAWS_Access_Key_Id=A#1\n\n[profile  dev]\ns3 =\n  "
      "addressing_style = path\n  endpoint_url=http://x\nregion=b\r\nregion=c\n",
      "f");
  CHECK(sections.at("default").at("region") == "eu-west-1");
  CHECK(sections.at("default").at("aws_access_key_id") == "A#1");
  CHECK(sections.at("profile dev").at("s3.addressing_style") == "path");
  CHECK(sections.at("profile dev").at("s3.endpoint_url") == "http://x");
  CHECK(sections.at("profile dev").at("region") == "c");
  for (const char* bad : {"key = value\n", "[x\n", "[x]\nno equals secret\n", "[x]\n= value\n"}) {
    try {
      parse_profiles(bad, "f");
      FAIL("taken: " << bad);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      CHECK(error.message.starts_with("f:"));
      CHECK(error.message.find("secret") == std::string::npos);
    }
  }
  const Bytes noise = random_bytes(10'000, 1);
  try {
    parse_profiles(as_text(noise), "f");
  } catch (const Error&) {
  }
}

TEST_CASE("s3: where a remote is") {
  World world;
  world.variables = {{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "S"}};
  Settings settings = world.settings();
  CHECK(settings.host == "s3.us-east-1.amazonaws.com");
  CHECK(settings.scheme == "https");
  CHECK_FALSE(settings.path_style);
  CHECK(settings.bucket == "bucket");
  CHECK(settings.prefix == "a/b");
  CHECK(world.settings("s3://bucket").prefix.empty());
  CHECK(world.settings("s3://bucket/a//").prefix == "a");
  CHECK(world.settings("s3://with.dots/a").path_style);
  world.variables["AWS_DEFAULT_REGION"] = "cn-north-1";
  CHECK(world.settings().host == "s3.cn-north-1.amazonaws.com.cn");
  world.variables["AWS_REGION"] = "eu-central-1";
  CHECK(world.settings().region == "eu-central-1");
  world.variables["AWS_ENDPOINT_URL"] = "https://minio.example:9000/base/";
  settings = world.settings();
  CHECK(settings.host == "minio.example:9000");
  CHECK(settings.base_path == "/base");
  CHECK(settings.path_style);
  world.variables["AWS_ENDPOINT_URL_S3"] = "http://localhost:9000";
  CHECK(world.settings().scheme == "http");
  for (const char* bad :
       {"s3://", "s3://ab", "s3://bucket/../x", "s3://bucket/a//b", "s3://bu cket", "s3://user@bucket"})
    CHECK(error_of([&] { (void)world.settings(bad); }) == ErrorKind::kUsage);
  for (const char* elsewhere : {"http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example"}) {
    world.variables["AWS_ENDPOINT_URL_S3"] = elsewhere;
    CHECK(error_of([&] { (void)world.settings(); }) == ErrorKind::kRefused);
  }
  world.variables["MLX_S3_ALLOW_HTTP"] = "1";
  CHECK(world.settings().scheme == "http");
  for (const char* bad : {"localhost:9000", "ftp://x", "http://", "http://user:secret@host", "http://a b"}) {
    world.variables["AWS_ENDPOINT_URL_S3"] = bad;
    CHECK(error_of([&] { (void)world.settings(); }) == ErrorKind::kUsage);
  }
}

TEST_CASE("s3: who asks") {
  World world;
  CHECK(error_of([&] { (void)world.settings(); }) == ErrorKind::kUsage);
  world.write("credentials", "[default]\naws_access_key_id=A\naws_secret_access_key=S\n[half]\naws_access_key_id=A\n");
  world.write("config",
              "[default]\nregion=r1\n[profile p]\nregion=r2\nendpoint_url=https://p.example\naws_access_key_id=P\n"
              "aws_secret_access_key=Q\naws_session_token=T\n[profile sso]\nsso_session=x\n"
              "[profile broken]\ncredential_process=false\n[profile chatty]\ncredential_process=echo s3cr3t\n");
  CHECK(world.settings().credentials.access_key == "A");
  CHECK(world.settings().region == "r1");
  world.variables["AWS_PROFILE"] = "p";
  CHECK(world.settings().credentials.secret_key == "Q");
  CHECK(world.settings().credentials.session_token == "T");
  CHECK(world.settings().host == "p.example");
  CHECK(world.settings().region == "r2");
  world.variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  CHECK(world.settings().host == "s3.r2.amazonaws.com");
  for (const char* bad : {"sso", "half", "broken", "chatty", "absent"}) {
    world.variables["AWS_PROFILE"] = bad;
    try {
      (void)world.settings();
      FAIL("taken: " << bad);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      CHECK((error.message + error.hint).find("s3cr3t") == std::string::npos);
    }
  }
  world.variables["AWS_ACCESS_KEY_ID"] = "E";
  world.variables["AWS_PROFILE"] = "p";
  CHECK(error_of([&] { (void)world.settings(); }) == ErrorKind::kUsage);
  world.variables["AWS_SECRET_ACCESS_KEY"] = "F";
  CHECK(world.settings().credentials.access_key == "E");
  world.variables["AWS_SECRET_ACCESS_KEY"] = "F\r\nX-Header: 1";
  CHECK(error_of([&] { (void)world.settings(); }) == ErrorKind::kUsage);
  CHECK(split_words("a 'b c' d\\ e \"f\\\"g\" ''") == std::vector<std::string>{"a", "b c", "d e", "f\"g", ""});
  CHECK(error_of([] { (void)split_words("a 'b"); }) == ErrorKind::kUsage);
}

TEST_CASE("s3: the catalogue is read as it is written, and nothing else is") {
  Catalogue catalogue;
  CHECK(decode_catalogue(encode_catalogue(catalogue), "c") == catalogue);
  catalogue.heads = {Digest::of("a"), Digest::of("b")};
  std::ranges::sort(catalogue.heads);
  for (const char* name : {"p", "q", "r"}) catalogue.add({{Digest::of(name), 1168 + 128 * 3, 3}});
  const std::string text = encode_catalogue(catalogue);
  CHECK(decode_catalogue(text, "c") == catalogue);
  const Catalogue before = catalogue;
  catalogue.add(before.packs);
  CHECK(catalogue == before);

  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    if (cut > 0 && text[cut - 1] == '\n') continue;  // whole lines are another catalogue
    CHECK(error_of([&] { decode_catalogue(text.substr(0, cut), "c"); }) == ErrorKind::kCorrupt);
  }
  const std::string magic = "mlx catalogue 1\n", id(64, 'a'), id2(64, 'b');
  for (const std::string& bad :
       {"mlx catalogue 2\n" + std::string(), magic + "\n", magic + "head " + id + "\n",
        magic + "pack " + id + " 1168\n", magic + "pack " + id + " 1168 0 \n", magic + "pack " + id + " 01168 0\n",
        magic + "pack " + id + " -1 0\n", magic + "pack " + id + " 1168 1\n", magic + "pack " + id + " 1073741825 0\n",
        magic + "pack " + id + " 99999999999999999999 0\n", magic + "pack " + id.substr(1) + " 1168 0\n",
        magic + "pack " + id2 + " 1168 0\npack " + id + " 1168 0\n",
        magic + "pack " + id + " 1168 0\npack " + id + " 1168 0\n",
        magic + "pack " + id + " 1168 0\nhead sha256:" + id + "\n",
        magic + "head sha256:" + id + "\nhead sha256:" + id + "\n", magic + "other\n"}) {
    INFO(bad);
    CHECK(error_of([&] { decode_catalogue(bad, "c"); }) == ErrorKind::kCorrupt);
  }
}

TEST_CASE("s3: what an answer means") {
  const auto document = [](std::string_view code, std::string_view message) {
    return fmt::format("<?xml version=\"1.0\"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>", code, message);
  };
  const Problem problem = parse_problem(as_bytes(document("NoSuchKey", "a &lt;b&gt; \x1b[31m&amp;")));
  CHECK(problem.code == "NoSuchKey");
  CHECK(problem.message == "a <b> ?[31m&");
  CHECK(parse_problem(as_bytes("not xml")).code.empty());
  CHECK(parse_problem(as_bytes("<Error><Code>cut")).code.empty());
  CHECK(parse_problem(as_bytes(document("C", std::string(100'000, 'x')))).message.size() <= 200);

  CHECK(is_passing(503, {}));
  CHECK(is_passing(500, {}));
  CHECK(is_passing(429, {}));
  CHECK(is_passing(409, {"ConditionalRequestConflict", ""}));
  CHECK(is_passing(400, {"RequestTimeout", ""}));
  CHECK_FALSE(is_passing(501, {}));
  CHECK_FALSE(is_passing(403, {}));
  CHECK_FALSE(is_passing(412, {}));

  CHECK(error_text(answer(403, "")).starts_with("5 s3://b/k: access denied"));
  CHECK(error_text(answer(404, document("NoSuchBucket", ""))).starts_with("3 s3://b/k: the bucket does not exist"));
  CHECK(error_text(answer(418, document("Teapot", "short and stout"))) ==
        "7 s3://b/k: the server answered 418, Teapot: short and stout");
  CHECK(error_text(answer(301, "")).starts_with("7 "));
  const HttpResponse skewed =
      answer(403, document("RequestTimeTooSkewed", ""), {{"date", "Fri, 24 May 2013 00:00:00 GMT"}});
  CHECK(error_text(skewed, 1'369'353'600'000'000 + 3'600'000'000).find("60 minutes ahead of the server's") !=
        std::string::npos);
}
