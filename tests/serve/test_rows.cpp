// Rows: a tensor for each column or an object for each row, with the answers that prediction gives.
#include "http.h"
#include "infer/answers.h"
#include "infer/session.h"

namespace mlx::serve::test {
namespace {

constexpr const char* kInfer = "/v2/models/price/infer";

std::vector<Named> price(nn::Model model) {
  std::vector<Named> models;
  models.push_back({"price", std::move(model)});
  return models;
}

std::string column(const std::string& name, const std::string& datatype, const std::string& data,
                   const std::string& shape) {
  return fmt::format(R"({{"name":"{}","datatype":"{}","shape":{},"data":{}}})", name, datatype, shape, data);
}

std::string columns(const std::vector<std::string>& all, const std::string& more = "") {
  std::string out;
  for (const std::string& one : all) out += (out.empty() ? "" : ",") + one;
  return fmt::format(R"({{"inputs":[{}]{}}})", out, more);
}

Json outputs(const Running& server, const std::string& body) {
  const Answer answer = ask(server.port(), post_to(kInfer, body));
  CHECK_MESSAGE(answer.status == 200, answer.body);
  return answer.status == 200 ? answer.json()["outputs"] : Json();
}

// What prediction says of a file with these lines of JSON.
std::vector<double> predicted(const infer::Model& model, const std::string& lines) {
  NoProgress silent;
  const data::RowSchema& schema = *model.about().preprocessing.rows;
  const data::Rows rows =
      data::read_rows({data::memory_source(lines), data::TableKind::kJsonLines, "rows.jsonl"}, schema, false, silent);
  infer::Session session(model);
  return infer::answer_rows(session, rows, silent).values;
}

TEST_CASE("rows: columns and objects get the bits of prediction, one output for each number") {
  Running server(price(row_model()));
  const std::vector<double> expected =
      predicted(server.model(),
                "{\"rooms\":2.1,\"city\":\"Bonn\"}\n{\"rooms\":-4,\"city\":\"Ulm \\\"Süd\\\"\"}\n"
                "{\"rooms\":1e3,\"city\":\"Rome\"}\n");
  REQUIRE(expected.size() == 6);
  const Json said = outputs(server, columns({column("rooms", "FP64", "[2.1,-4,1e3]", "[3]"),
                                             column("city", "BYTES", R"(["Bonn","Ulm \"Süd\"","Rome"])", "[3]")}));
  REQUIRE(said.size() == 2);
  for (std::size_t target = 0; target < 2; ++target) {
    CHECK(said[target]["name"] == (target == 0 ? "price" : "rent"));
    CHECK(said[target]["datatype"] == "FP64");
    CHECK(said[target]["shape"] == Json::array({3}));
    for (std::size_t i = 0; i < 3; ++i) CHECK(said[target]["data"][i].get<double>() == expected[i * 2 + target]);
  }
  const std::string rows = R"({"rows":[{"rooms":2.1,"city":"Bonn"},
    {"city":"Ulm \u0022Süd\"",
     "more":[1,{}],"rooms":-4.0}, {"rooms":1000,"city":"Rome"}]})";
  CHECK(outputs(server, rows) == said);
  const Json rent = outputs(server, rows.substr(0, rows.size() - 1) + R"(,"outputs":[{"name":"rent"}]})");
  REQUIRE(rent.size() == 1);
  CHECK(rent[0] == said[1]);
}

TEST_CASE("rows: datatypes and shapes that mean the same, in any order") {
  Running server(price(row_model()));
  const std::string city = column("city", "BYTES", R"(["Bonn","x"])", "[2]"),
                    rooms = column("rooms", "FP64", "[3,0.5]", "[2]");
  const Json expected = outputs(server, columns({rooms, city}));
  CHECK(outputs(server, columns({city, rooms})) == expected);
  CHECK(outputs(server, columns({city, column("rooms", "FP32", "[[3],[0.5]]", "[2,1]")})) == expected);
  CHECK(outputs(server, columns({city, column("rooms", "FP32", "[3.0,0.5]", "[2,1]")})) == expected);
  const Json whole = outputs(server, columns({column("rooms", "FP64", "[3,127]", "[2]"), city}));
  for (const char* datatype : {"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP32"}) {
    CAPTURE(datatype);
    CHECK(outputs(server, columns({city, column("rooms", datatype, "[3,127]", "[2]")})) == whole);
  }
  // A float is a float: 0.1 as FP32 is another number than as FP64.
  const auto one = [&](const char* datatype) {
    return outputs(server,
                   columns({column("rooms", datatype, "[0.1]", "[1]"), column("city", "BYTES", "[\"x\"]", "[1]")}));
  };
  CHECK(one("FP32")[0]["data"][0].get<double>() ==
        predicted(server.model(), "{\"rooms\":0.10000000149011612,\"city\":\"x\"}\n")[0]);
  CHECK(one("FP64")[0]["data"][0].get<double>() == predicted(server.model(), "{\"rooms\":0.1,\"city\":\"x\"}\n")[0]);
}

TEST_CASE("rows: what is missing is missing") {
  Running strict(price(row_model())), lenient(price(row_model(data::TargetKind::kNumbers, true)));
  const std::string body = columns({column("rooms", "FP64", "[2,null]", "[2]"),
                                    column("city", "BYTES", R"([null,"Bonn"])", "[2]")}),
                    rows = R"({"rows":[{"rooms":2,"city":null},{"city":"Bonn"}]})";
  const std::vector<double> expected =
      predicted(lenient.model(), "{\"rooms\":2,\"city\":null}\n{\"rooms\":null,\"city\":\"Bonn\"}\n");
  const Json said = outputs(lenient, body);
  CHECK(said[0]["data"] == Json::array({expected[0], expected[2]}));
  CHECK(outputs(lenient, rows) == said);
  for (const std::string& refused : {body, rows}) {
    const Answer answer = ask(strict.port(), post_to(kInfer, refused));
    CHECK(answer.status == 400);
    CHECK(answer.error() == "the request: row 1: column 'city' has no value");
  }
  CHECK(ask(lenient.port(), post_to(kInfer, R"({"rows":[{"rooms":1}]})")).error() ==
        "the request has no column 'city'");
}

TEST_CASE("rows: classes and labels") {
  Running classes(price(row_model(data::TargetKind::kClass)));
  const std::string body = R"({"id":"x","rows":[{"rooms":9,"city":"Bonn"},{"rooms":-9,"city":"Bonn"}]})",
                    lines = "{\"rooms\":9,\"city\":\"Bonn\"}\n{\"rooms\":-9,\"city\":\"Bonn\"}\n";
  const std::vector<double> expected = predicted(classes.model(), lines);
  const Json said = outputs(classes, body);
  REQUIRE(said.size() == 3);
  CHECK(said[0]["shape"] == Json::array({2, 2}));
  for (std::size_t i = 0; i < 4; ++i) CHECK(said[0]["data"][i].get<float>() == static_cast<float>(expected[i]));
  for (std::size_t i = 0; i < 2; ++i) {
    const int top = expected[2 * i + 1] > expected[2 * i] ? 1 : 0;
    CHECK(said[1]["data"][i] == (top == 1 ? "small" : "big"));
    CHECK(said[2]["data"][i] == top);
  }
  Running labels(price(row_model(data::TargetKind::kLabels)));
  const std::vector<double> probabilities = predicted(labels.model(), lines);
  const Json both = outputs(labels, body);
  REQUIRE(both.size() == 1);
  CHECK(both[0]["name"] == "probabilities");
  for (std::size_t i = 0; i < 4; ++i) CHECK(both[0]["data"][i].get<float>() == static_cast<float>(probabilities[i]));
  const Json about = ask(labels.port(), get("/v2/models/price")).json();
  CHECK(about["inputs"] == parse_json(R"([{"name":"rooms","datatype":"FP64","shape":[-1]},
                                          {"name":"city","datatype":"BYTES","shape":[-1]}])",
                                      "test"));
}

TEST_CASE("rows: what is wrong with a request is said with 400") {
  Running server(price(row_model()));
  const std::string rooms = column("rooms", "FP64", "[2]", "[1]"), city = column("city", "BYTES", "[\"x\"]", "[1]");
  const auto with = [&](const std::string& datatype, const std::string& data, const std::string& shape = "[1]") {
    return columns({city, column("rooms", datatype, data, shape)});
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "no 'inputs' and no 'rows'"},
      {columns({}), "0 inputs given, the model takes 'rooms', 'city'"},
      {columns({rooms}), "row 1: column 'city' has no value"},
      {columns({rooms, city, column("town", "BYTES", "[\"x\"]", "[1]")}), "no input 'town'; it takes 'rooms', 'city'"},
      {columns({rooms, city, rooms}), "input 'rooms' is given twice"},
      {columns({column("rooms", "FP64", "[2,3]", "[2]"), city}), "input 'rooms' has 2 rows, input 'city' has 1"},
      {with("FP16", "[2]"), "datatype 'FP16' is not supported; expected FP32, FP64, INT8"},
      {with("FP64", "[2]", "[2]"), "data holds 1 values, shape [2] needs 2"},
      {with("FP64", "[2]", "[1,2]"), "shape [1,2] does not fit; expected [N] or [N,1]"},
      {with("FP64", "[]", "[0]"), "shape [0] does not fit"},
      {with("FP64", "[2]", "[]"), "shape [] does not fit"},
      {with("FP64", "[[2],3]", "[2]"), "data mixes values and arrays"},
      {with("FP64", "[[2,3]]"), "more than one value"},
      {with("FP64", "[[]]"), "an empty array"},
      {with("FP64", "[[2]]"), "data is nested as [1,1], its shape says [1]"},
      {with("FP64", "2"), "expected an array"},
      {with("FP64", "[\"2\"]"), "expected a number"},
      {with("FP64", "[1e999]"), "range of FP64"},
      {with("FP64", "[1e300]"), "row 1: column 'rooms': '1e+300' is beyond 3.4e38"},
      {with("FP32", "[1e39]"), "input 'rooms': data[0] is outside of the range of FP32"},
      {with("INT8", "[128]"), "input 'rooms': data[0] is 128, no INT8"},
      {with("UINT8", "[-1]"), "data[0] is -1, no UINT8"},
      {with("INT64", "[9223372036854775808]"), "no INT64"},
      {with("INT32", "[1.0]"), "data[0] is 1.0, no INT32"},
      {with("BOOL", "[1]"), "data[0]: expected true or false for BOOL"},
      {with("BYTES", "[2]"), "data[0]: expected text in quotes for BYTES"},
      {with("BYTES", "[\"two\"]"), "row 1: column 'rooms': 'two' is not a number"},
      {columns({rooms, city}, R"(,"outputs":[{"name":"label"}])"), "no output 'label'; it has price, rent"},
      {columns({rooms, city}, R"(,"rows":[{}])"), "both 'inputs' and 'rows'"},
      {R"({"rows":[]})", "'rows' is empty"},
      {R"({"rows":{}})", "expected an array"},
      {R"({"rows":[3]})", "rows[0]: expected an object"},
      {R"({"rows":[{"rooms":1,"city":"x"},{"rooms":[1],"city":"x"}]})", "row 2: column 'rooms': '[1]' is a list"},
      {R"({"rows":[{"rooms":"two","city":"x"}]})", "row 1: column 'rooms': 'two' is not a number"},
      {R"({"rows":[{"rooms":1}]})", "row 1: column 'city' has no value"},
  };
  for (const auto& [body, why] : cases) {
    CAPTURE(body);
    const Answer answer = ask(server.port(), post_to(kInfer, body));
    CHECK(answer.status == 400);
    CHECK_MESSAGE(answer.error().find(why) != std::string::npos, answer.body);
  }
}

}  // namespace
}  // namespace mlx::serve::test
