// In the order of Amazon's own tools: variables, then the profile's keys in the credentials file, then its
// credential_process, then its keys in the config file. What needs further services (roles, single sign-on, metadata of
// a machine) is refused by name, with the way around.
#include "store/remote/s3/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/subprocess.h"
#include "store/remote/s3/profile.h"

namespace mlx::store::s3 {

namespace {

// What a profile says, out of both files.
struct Profile {
  std::string name;
  Section credentials, config, services;
  bool found = false;
};

std::string value_of(const Section& section, const std::string& key) {
  const auto found = section.find(key);
  return found == section.end() ? std::string() : found->second;
}

Sections read_profiles(const Environment& environment, const char* name, const char* usual) {
  std::string path = environment.get(name).value_or("");
  if (path.empty() && environment.home.empty()) return {};
  if (path.empty()) path = join_path(environment.home, usual);
  if (path.starts_with("~/")) path = join_path(environment.home, path.substr(2));
  return path_exists(path) ? parse_profiles(read_text(path), path) : Sections{};
}

Profile read_profile(const Environment& environment) {
  const auto asked = environment.get("AWS_PROFILE");
  Profile profile;
  profile.name = asked ? *asked : environment.get("AWS_DEFAULT_PROFILE").value_or("default");
  const Sections keys = read_profiles(environment, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
  const Sections config = read_profiles(environment, "AWS_CONFIG_FILE", ".aws/config");
  const auto take = [&](const Sections& from, const std::string& section, Section& to) {
    const auto found = from.find(section);
    if (found == from.end()) return false;
    to = found->second;
    return true;
  };
  profile.found = take(keys, profile.name, profile.credentials);
  profile.found |= take(config, "profile " + profile.name, profile.config) ||
                   (profile.name == "default" && take(config, "default", profile.config));
  if (const std::string services = value_of(profile.config, "services"); !services.empty())
    take(config, "services " + services, profile.services);
  if (asked && !profile.found) {
    throw Error(ErrorKind::kUsage, fmt::format("AWS_PROFILE names the profile '{}', which no file has", *asked),
                "see ~/.aws/credentials and ~/.aws/config, or AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE");
  }
  return profile;
}

std::optional<Credentials> keys_of(const Section& section, const std::string& profile) {
  Credentials keys{value_of(section, "aws_access_key_id"), value_of(section, "aws_secret_access_key"),
                   value_of(section, "aws_session_token")};
  if (keys.access_key.empty() && keys.secret_key.empty()) return std::nullopt;
  if (keys.access_key.empty() || keys.secret_key.empty()) {
    fail(ErrorKind::kUsage, "the profile '{}' has only one of aws_access_key_id and aws_secret_access_key", profile);
  }
  return keys;
}

// The program prints secrets, so no message quotes it.
Credentials keys_of_process(const std::string& command, const std::string& profile) {
  const auto wrong = [&](const std::string& why) {
    return Error(ErrorKind::kUsage, fmt::format("the credential_process of the profile '{}' {}", profile, why),
                 "run it by hand; it has to print JSON with Version 1, AccessKeyId and SecretAccessKey");
  };
  const std::vector<std::string> words = split_words(command);
  if (words.empty()) throw wrong("is empty");
  const ProcessResult result = run_process(words);
  if (result.exit_code != 0) throw wrong(fmt::format("ended with {}", result.exit_code));
  try {
    const Json json = parse_json(result.out, "its output");
    if (json_int(json, "Version", "its output") != 1) throw wrong("prints another version than 1");
    return {json_string(json, "AccessKeyId", "its output"), json_string(json, "SecretAccessKey", "its output"),
            json.contains("SessionToken") ? json_string(json, "SessionToken", "its output") : std::string()};
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kUsage) throw;
    throw wrong("prints something else");
  }
}

Credentials find_credentials(const Environment& environment, const Profile& profile) {
  const auto access = environment.get("AWS_ACCESS_KEY_ID");
  const auto secret = environment.get("AWS_SECRET_ACCESS_KEY");
  if (access && secret) return {*access, *secret, environment.get("AWS_SESSION_TOKEN").value_or("")};
  if (access || secret) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{} is set without {}", access ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                            access ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"),
                "set both, or neither and AWS_PROFILE");
  }
  if (const auto keys = keys_of(profile.credentials, profile.name)) return *keys;
  for (const Section* section : {&profile.credentials, &profile.config}) {
    if (const std::string command = value_of(*section, "credential_process"); !command.empty())
      return keys_of_process(command, profile.name);
  }
  if (const auto keys = keys_of(profile.config, profile.name)) return *keys;
  for (const char* key : {"role_arn", "sso_session", "sso_start_url", "web_identity_token_file"}) {
    if (value_of(profile.config, key).empty() && value_of(profile.credentials, key).empty()) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("the profile '{}' gets its keys by {}, which mlx does not do", profile.name, key),
                fmt::format("eval \"$(aws configure export-credentials --profile {} --format env)\"", profile.name));
  }
  throw Error(ErrorKind::kUsage, "no credentials for S3 are found",
              "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile in ~/.aws/credentials");
}

bool is_loopback(const std::string& host) {
  const std::string name = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return name == "localhost" || name == "[::1]" ||
         (name.starts_with("127.") && name.find_first_not_of("0123456789.") == name.npos);
}

bool is_name(std::string_view text, std::string_view others) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || others.find(c) != others.npos;
  });
}

void take_endpoint(Settings& settings, const std::string& endpoint, const Environment& environment) {
  const std::size_t colons = endpoint.find("://");
  settings.scheme = colons == endpoint.npos ? "" : endpoint.substr(0, colons);
  const std::string rest = colons == endpoint.npos ? "" : endpoint.substr(colons + 3);
  settings.host = rest.substr(0, rest.find('/'));
  std::string path = rest.substr(settings.host.size());
  while (path.ends_with('/')) path.pop_back();
  settings.base_path = percent_encode(path, true);
  if ((settings.scheme != "http" && settings.scheme != "https") || !is_name(settings.host, "-._:[]")) {
    throw Error(ErrorKind::kUsage, "the S3 endpoint is not a URL http(s)://HOST[:PORT]",
                "see AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, and endpoint_url in ~/.aws/config");
  }
  if (settings.scheme == "http" && !is_loopback(settings.host) &&
      environment.get("MLX_S3_ALLOW_HTTP").value_or("0") != "1") {
    throw Error(ErrorKind::kRefused, fmt::format("http://{} would send data unencrypted over a network", settings.host),
                "use https, or set MLX_S3_ALLOW_HTTP=1 where the network is trusted");
  }
}

std::string find_endpoint(const Environment& environment, const Profile& profile) {
  if (environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").value_or("") == "true") return {};
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (const auto value = environment.get(name)) return *value;
  }
  const std::string of_service = value_of(profile.services, "s3.endpoint_url");
  return of_service.empty() ? value_of(profile.config, "endpoint_url") : of_service;
}

std::string find_region(const Environment& environment, const Profile& profile) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (const auto value = environment.get(name)) return *value;
  }
  const std::string region = value_of(profile.config, "region");
  return region.empty() ? "us-east-1" : region;
}

int find_number(const Environment& environment, const char* name, int otherwise) {
  const auto text = environment.get(name);
  if (!text) return otherwise;
  int value = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (problem != std::errc() || end != text->data() + text->size() || value < 1)
    fail(ErrorKind::kUsage, "{} is not a number above 0", name);
  return value;
}

// "s3://bucket/some/prefix/" into its two parts.
void take_url(Settings& settings, const std::string& url) {
  CHECK(url.starts_with("s3://"));
  std::string rest = url.substr(5);
  settings.bucket = rest.substr(0, rest.find('/'));
  settings.prefix = rest.size() > settings.bucket.size() ? rest.substr(settings.bucket.size() + 1) : "";
  while (settings.prefix.ends_with('/')) settings.prefix.pop_back();
  const bool bucket_fits = is_name(settings.bucket, "-._") && settings.bucket.size() >= 3 &&
                           settings.bucket.size() <= 63 && settings.bucket.find("..") == std::string::npos;
  if (!bucket_fits || (!settings.prefix.empty() && !is_safe_relative(settings.prefix)) ||
      settings.prefix.size() > 900) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: not the URL of an S3 remote", url),
                "write s3://BUCKET or s3://BUCKET/PREFIX; an endpoint is set with AWS_ENDPOINT_URL_S3");
  }
}

}  // namespace

std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) fail(ErrorKind::kUsage, "a credential_process has a quote that does not end");
  return words;
}

Settings resolve_settings(const std::string& url, const Environment& environment) {
  Settings settings;
  take_url(settings, url);
  const Profile profile = read_profile(environment);
  settings.region = find_region(environment, profile);
  if (!is_name(settings.region, "-")) fail(ErrorKind::kUsage, "the AWS region is not a name such as eu-central-1");
  if (const std::string endpoint = find_endpoint(environment, profile); !endpoint.empty()) {
    take_endpoint(settings, endpoint, environment);
    settings.path_style = value_of(profile.config, "s3.addressing_style") != "virtual";
  } else {
    settings.scheme = "https";
    settings.host =
        fmt::format("s3.{}.amazonaws.com{}", settings.region, settings.region.starts_with("cn-") ? ".cn" : "");
    // A certificate for *.s3.… does not cover names with dots, and names with capitals are no host names.
    settings.path_style =
        settings.bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos ||
        value_of(profile.config, "s3.addressing_style") == "path";
  }
  settings.credentials = find_credentials(environment, profile);
  const Credentials& keys = settings.credentials;
  for (const std::string* text : {&keys.access_key, &keys.secret_key, &keys.session_token}) {
    if (std::ranges::any_of(*text, [](unsigned char c) { return c <= ' ' || c >= 0x7f; }))
      fail(ErrorKind::kUsage, "the credentials for S3 hold white space or characters that no key has");
  }
  settings.ca_bundle = environment.get("AWS_CA_BUNDLE").value_or(value_of(profile.config, "ca_bundle"));
  settings.stall_seconds = find_number(environment, "MLX_S3_STALL_SECONDS", 30);
  settings.attempts = find_number(environment, "AWS_MAX_ATTEMPTS", 6);
  return settings;
}

}  // namespace mlx::store::s3
