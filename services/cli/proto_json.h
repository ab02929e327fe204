// Any protocol message as JSON for machines: field names as in the .proto, numbers as numbers (protobuf's own
// printer writes 64-bit numbers as strings), enums by their short names, bytes as text where they are UTF-8,
// else hexadecimal.
#ifndef RISKKV_SERVICES_CLI_PROTO_JSON_H_
#define RISKKV_SERVICES_CLI_PROTO_JSON_H_

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace riskkv::cli {

// Keys stand in the order of the .proto.
using Json = nlohmann::ordered_json;

// Scalars are always there, messages only when set.
Json ToJson(const google::protobuf::Message& message);
// Bytes that may be cut inside a character: what is no UTF-8 becomes U+FFFD.
std::string Utf8OrReplaced(const std::string& bytes);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_PROTO_JSON_H_
