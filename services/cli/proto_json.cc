#include "services/cli/proto_json.h"

#include <cmath>
#include <string>

#include "fmt/format.h"
#include "services/cli/names.h"

namespace riskkv::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Json Number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

Json Bytes(const std::string& bytes) {
  try {
    // dump() is what checks the encoding.
    (void)Json(bytes).dump();
    return bytes;
  } catch (const nlohmann::json::type_error&) {
    std::string hex;
    for (unsigned char c : bytes) hex += fmt::format("{:02x}", c);
    return hex;
  }
}

Json Single(const Message& m, const FieldDescriptor* f) {
  const auto* r = m.GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return r->GetInt32(m, f);
    case FieldDescriptor::CPPTYPE_INT64:
      return r->GetInt64(m, f);
    case FieldDescriptor::CPPTYPE_UINT32:
      return r->GetUInt32(m, f);
    case FieldDescriptor::CPPTYPE_UINT64:
      return r->GetUInt64(m, f);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(r->GetDouble(m, f));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(r->GetFloat(m, f));
    case FieldDescriptor::CPPTYPE_BOOL:
      return r->GetBool(m, f);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortName(*f->enum_type(), r->GetEnumValue(m, f));
    case FieldDescriptor::CPPTYPE_STRING:
      return Bytes(r->GetString(m, f));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(r->GetMessage(m, f));
  }
  return nullptr;
}

Json Repeated(const Message& m, const FieldDescriptor* f, int i) {
  const auto* r = m.GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return r->GetRepeatedInt32(m, f, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return r->GetRepeatedInt64(m, f, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return r->GetRepeatedUInt32(m, f, i);
    case FieldDescriptor::CPPTYPE_UINT64:
      return r->GetRepeatedUInt64(m, f, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(r->GetRepeatedDouble(m, f, i));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(r->GetRepeatedFloat(m, f, i));
    case FieldDescriptor::CPPTYPE_BOOL:
      return r->GetRepeatedBool(m, f, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortName(*f->enum_type(), r->GetRepeatedEnumValue(m, f, i));
    case FieldDescriptor::CPPTYPE_STRING:
      return Bytes(r->GetRepeatedString(m, f, i));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(r->GetRepeatedMessage(m, f, i));
  }
  return nullptr;
}

// map<string, scalar>: the only maps of the protocol.
Json Map(const Message& m, const FieldDescriptor* f) {
  Json out = Json::object();
  const auto* r = m.GetReflection();
  const FieldDescriptor* key = f->message_type()->map_key();
  const FieldDescriptor* value = f->message_type()->map_value();
  std::map<std::string, Json> sorted;
  for (int i = 0; i < r->FieldSize(m, f); ++i) {
    const Message& entry = r->GetRepeatedMessage(m, f, i);
    sorted[entry.GetReflection()->GetString(entry, key)] = Single(entry, value);
  }
  for (auto& [k, v] : sorted) out[k] = std::move(v);
  return out;
}

}  // namespace

Json ToJson(const Message& message) {
  Json out = Json::object();
  const auto* reflection = message.GetReflection();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* f = descriptor->field(i);
    if (f->is_map()) {
      out[f->name()] = Map(message, f);
    } else if (f->is_repeated()) {
      Json list = Json::array();
      for (int k = 0; k < reflection->FieldSize(message, f); ++k) list.push_back(Repeated(message, f, k));
      out[f->name()] = std::move(list);
    } else if (!f->has_presence() || reflection->HasField(message, f)) {
      out[f->name()] = Single(message, f);
    }
  }
  return out;
}

std::string Utf8OrReplaced(const std::string& bytes) {
  std::string quoted = Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace riskkv::cli
