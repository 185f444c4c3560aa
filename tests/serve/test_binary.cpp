// Tensors as bytes behind the JSON: the same answers as in JSON, in both directions, and what does not fit is refused.
#include <bit>

#include "http.h"

namespace mlx::serve::test {
namespace {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string with_bytes(const std::string& model, const std::string& json, const std::string& bytes) {
  return post(
      json + bytes,
      fmt::format("Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {}\r\n", json.size()),
      "/v2/models/" + model + "/infer");
}

std::string input(const std::string& name, const std::string& datatype, const std::string& shape, std::size_t bytes) {
  return fmt::format(R"({{"name":"{}","datatype":"{}","shape":{},"parameters":{{"binary_data_size":{}}}}})", name,
                     datatype, shape, bytes);
}

std::vector<std::uint8_t> pixels(int n) {
  std::vector<std::uint8_t> out;
  out.reserve(16);
  for (int i = 0; i < 16; ++i) out.push_back(static_cast<std::uint8_t>((n * 31 + i * i * 17) % 256));
  return out;
}

TEST_CASE("binary tensors: images and their answers are those of JSON") {
  Running server;
  const Json plain = ask(server.port(), post(infer(image(3)))).json();
  const std::vector<std::uint8_t> one = pixels(3);
  const auto asked = [&](const std::string& datatype, const std::string& bytes, const std::string& more) {
    const std::string json =
        fmt::format(R"({{"inputs":[{}]{}}})", input("images", datatype, "[1,16]", bytes.size()), more);
    return ask(server.port(), with_bytes("clf", json, bytes));
  };
  CHECK(asked("UINT8", bytes_of(one), "").json()["outputs"] == plain["outputs"]);
  const std::vector<float> floats(one.begin(), one.end());
  CHECK(asked("FP32", bytes_of(floats), "").json()["outputs"] == plain["outputs"]);

  const Answer binary = asked("UINT8", bytes_of(one), R"(,"parameters":{"binary_data_output":true})");
  CHECK(binary.head.find("Content-Type: application/octet-stream\r\n") != std::string::npos);
  const std::string field = "Inference-Header-Content-Length: ";
  const std::size_t size = std::stoul(binary.head.substr(binary.head.find(field) + field.size()));
  const Json json = parse_json(binary.body.substr(0, size), "answer");
  std::string rest = binary.body.substr(size);
  const auto take = [&](std::size_t i) {
    const auto count = json["outputs"][i]["parameters"]["binary_data_size"].get<std::size_t>();
    const std::string out = rest.substr(0, count);
    rest.erase(0, count);
    return out;
  };
  std::vector<float> probabilities(3);
  const std::string first = take(0);
  REQUIRE(first.size() == 12);
  std::memcpy(probabilities.data(), first.data(), 12);
  for (std::size_t i = 0; i < 3; ++i) CHECK(Json(probabilities[i]) == plain["outputs"][0]["data"][i].get<float>());
  const std::string label = plain["outputs"][1]["data"][0];
  CHECK(take(1) == bytes_of<std::uint32_t>({static_cast<std::uint32_t>(label.size())}) + label);
  CHECK(take(2) == bytes_of<std::int64_t>({plain["outputs"][2]["data"][0].get<std::int64_t>()}));
  CHECK(rest.empty());
  // One of them only.
  const Json mixed = parse_json(
      [&] {
        const Answer answer =
            asked("UINT8", bytes_of(one),
                  R"(,"outputs":[{"name":"label"},{"name":"class","parameters":{"binary_data":true}}])");
        return answer.body.substr(0, answer.body.size() - 8);
      }(),
      "answer");
  CHECK(mixed["outputs"][0]["data"][0] == label);
  CHECK(mixed["outputs"][1]["parameters"]["binary_data_size"] == 8);
}

TEST_CASE("binary tensors: rows of numbers and texts are those of JSON") {
  std::vector<Named> models;
  models.push_back({"price", row_model()});
  Running server(std::move(models));
  const Json plain =
      ask(server.port(), post_to("/v2/models/price/infer",
                                 R"({"rows":[{"rooms":2.5,"city":"Bonn"},{"rooms":-1,"city":"Ulm \"Süd\""}]})"))
          .json();
  const std::string second = "Ulm \"Süd\"";
  const std::string rooms = bytes_of<double>({2.5, -1}),
                    cities = bytes_of<std::uint32_t>({4}) + "Bonn" +
                             bytes_of<std::uint32_t>({static_cast<std::uint32_t>(second.size())}) + second;
  const std::string json = fmt::format(R"({{"inputs":[{},{}]}})", input("rooms", "FP64", "[2]", rooms.size()),
                                       input("city", "BYTES", "[2,1]", cities.size()));
  const Answer answer = ask(server.port(), with_bytes("price", json, rooms + cities));
  CHECK_MESSAGE(answer.json()["outputs"] == plain["outputs"], answer.body);
}

TEST_CASE("binary tensors: what does not fit is refused") {
  Running server;
  const auto refused = [&](const std::string& json, const std::string& bytes, const std::string& why) {
    CAPTURE(json);
    const Answer answer = ask(server.port(), with_bytes("clf", json, bytes));
    CHECK(answer.status == 400);
    CHECK_MESSAGE(answer.error().find(why) != std::string::npos, answer.body);
  };
  const std::string sixteen(16, 'a');
  const auto one = [](const std::string& tensor) { return R"({"inputs":[)" + tensor + "]}"; };
  refused(one(input("images", "UINT8", "[1,16]", 16)), "abc", "16 bytes of binary data, the body has 3 left");
  refused(one(input("images", "UINT8", "[1,16]", 16)), sixteen + "b", "1 bytes behind the JSON belong to no input");
  refused(one(input("images", "UINT8", "[2,16]", 16)), sixteen, "16 bytes of UINT8 are not what shape [2,16] needs");
  refused(one(input("images", "UINT8", "[9000000000,9000000000]", 16)), sixteen, "does not fit");
  refused(one(input("images", "UINT8", "[-1,16]", 16)), sixteen, "does not fit");
  refused(one(input("images", "FP16", "[1,8]", 16)), sixteen, "datatype 'FP16' is not supported");
  refused(one(input("images", "INT64", "[1,2]", 16)), sixteen, "expected UINT8 or FP32");
  refused(one(input("images", "FP32", "[1,1]", 4)), "\xff\xff\xff\xff", "NaN or infinity");
  refused(
      R"({"inputs":[{"name":"images","datatype":"UINT8","shape":[1,16],"data":[],"parameters":{"binary_data_size":0}}]})",
      "", "both data and binary data");
  const auto with_field = [&](const std::string& value) {
    return ask(server.port(), post(infer(image(1)), "Inference-Header-Content-Length: " + value + "\r\n"));
  };
  CHECK(with_field("x").error().find("is no number of bytes") != std::string::npos);
  CHECK(with_field("-1").status == 400);
  CHECK(with_field("100000").error().find("the body has") != std::string::npos);
  CHECK(ask(server.port(), post(infer(image(1)), "Content-Type: application/octet-stream\r\n")).status == 415);
}

}  // namespace
}  // namespace mlx::serve::test
