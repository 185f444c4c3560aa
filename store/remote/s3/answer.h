// What an S3 server's answer means: its error document, and the mlx::Error for it. Pure functions, used by client.cpp;
// the document is hostile input.
#pragma once

#include <string>

#include "base/error.h"
#include "store/remote/s3/http.h"

namespace mlx::store::s3 {

struct Problem {
  std::string code;     // "NoSuchKey"; "" if the answer has no error document
  std::string message;  // of the server, printable, at most 200 bytes
};

// Looks at no more than the first 64 KiB; anything that is not an error document gives empty fields.
Problem parse_problem(ByteView body);

// True if the same request may succeed a little later.
bool is_passing(int status, const Problem& problem);

// `where` is the object's URL. `clock` is this machine's time in microseconds, for an error about clocks.
Error error_of(const HttpResponse& response, const Problem& problem, const std::string& where, std::int64_t clock);

// Seconds since 1970 of an HTTP date ("Fri, 24 May 2013 00:00:00 GMT"); -1 if it is none.
std::int64_t parse_http_date(const std::string& text);

}  // namespace mlx::store::s3
