#include "services/cli/table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace riskkv::cli {
namespace {

// Columns a terminal needs: UTF-8 continuation bytes take none.
size_t Width(const std::string& s) {
  return std::count_if(s.begin(), s.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; });
}

std::string Pad(const std::string& s, size_t width, bool right) {
  std::string blanks(width > Width(s) ? width - Width(s) : 0, ' ');
  return right ? blanks + s : s + blanks;
}

}  // namespace

Table::Table(std::vector<std::string> headers) {
  for (std::string& h : headers) {
    right_.push_back(!h.empty() && h[0] == '>');
    headers_.push_back(right_.back() ? h.substr(1) : std::move(h));
  }
}

void Table::Add(std::vector<std::string> cells) {
  cells.resize(headers_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < headers_.size(); ++c) {
    size_t width = Width(headers_[c]);
    for (const auto& row : rows_) width = std::max(width, Width(row[c]));
    widths.push_back(width);
  }
  auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) out += "  ";
      out += Pad(cells[c], widths[c], right_[c]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  std::string out = line(headers_);
  for (const auto& row : rows_) out += line(row);
  return out;
}

std::string KeyValues(const std::vector<std::pair<std::string, std::string>>& pairs,
                      const std::string& indent) {
  size_t width = 0;
  for (const auto& [key, value] : pairs) width = std::max(width, Width(key));
  std::string out;
  for (const auto& [key, value] : pairs) out += indent + Pad(key, width, false) + "  " + value + "\n";
  return out;
}

std::string HumanBytes(int64_t bytes) {
  double v = static_cast<double>(bytes);
  if (std::abs(v) < 1000) return fmt::format("{} B", bytes);
  if (std::abs(v) < 1e6) return fmt::format("{:.0f} kB", v / 1e3);
  if (std::abs(v) < 1e9) return fmt::format("{:.2f} MB", v / 1e6);
  return fmt::format("{:.2f} GB", v / 1e9);
}

std::string HumanRate(double bytes_per_second) {
  if (bytes_per_second <= 0) return "-";
  double bits = bytes_per_second * 8;
  if (bits < 1e6) return fmt::format("{:.0f} kbit/s", bits / 1e3);
  if (bits < 1e9) return fmt::format("{:.1f} Mbit/s", bits / 1e6);
  return fmt::format("{:.2f} Gbit/s", bits / 1e9);
}

std::string HumanSeconds(double s) {
  if (s < 0) return "-" + HumanSeconds(-s);
  if (s < 1e-3) return fmt::format("{:.0f} us", s * 1e6);
  if (s < 0.1) return fmt::format("{:.1f} ms", s * 1e3);
  if (s < 1) return fmt::format("{:.0f} ms", s * 1e3);
  if (s < 100) return fmt::format("{:.2f} s", s);
  return fmt::format("{}m{:02}s", static_cast<int64_t>(s) / 60, static_cast<int64_t>(s) % 60);
}

std::string HumanMs(double ms) { return HumanSeconds(ms / 1e3); }

std::string Percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string ShortDigest(const std::string& digest) { return digest.empty() ? "-" : digest.substr(0, 12); }

}  // namespace riskkv::cli
