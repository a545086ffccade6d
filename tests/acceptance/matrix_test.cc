// A4: every type x reduction x collective x layout, on worlds of 1, 2, 3, 5 and 8, against a
// reference of our own, bit by bit; memory around the outputs is watched as well.
#include <cstring>
#include <memory>

#include "acceptance/matrix_world.h"

namespace sumcast::acceptance {
namespace {

enum class Collective { kAllReduce, kReduce, kReduceScatter, kBroadcast, kAllGather };
constexpr const char* kCollectiveNames[] = {"all_reduce", "reduce", "reduce_scatter", "broadcast",
                                            "all_gather"};

struct Layout {
  const char* name;
  uint64_t count;
  bool in_place;
  size_t misalignment;  ///< Bytes past a 64-byte boundary.
};
/// 1,424 bytes travel in a datagram: 700 elements are one chunk of bytes or four of f64.
constexpr Layout kLayouts[] = {{"contiguous", 700, false, 0}, {"in place", 700, true, 0},
                               {"unaligned", 397, false, 3},  {"unaligned in place", 1429, true, 1},
                               {"one element", 1, false, 0},  {"no elements", 0, false, 0}};

struct Cell {
  Collective collective;
  ElementType type;
  Reduction reduction;
  Layout layout;
  uint64_t seed;

  std::string text() const {
    return std::string(kCollectiveNames[static_cast<int>(collective)]) + " " +
           std::string(name_of(type)) + " " + std::string(name_of(reduction)) + ", " + layout.name;
  }
};

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  const auto add = [&](Collective collective, ElementType type, Reduction reduction) {
    for (const Layout& layout : kLayouts) {
      cells.push_back({collective, type, reduction, layout, cells.size() + 1});
    }
  };
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    for (int r = 0; r < kReductions - 1; ++r) {
      const auto reduction = static_cast<Reduction>(r);
      if (!reduction_applies(type, reduction)) continue;
      add(Collective::kAllReduce, type, reduction);
      add(Collective::kReduce, type, reduction);
      add(Collective::kReduceScatter, type, reduction);
    }
    add(Collective::kBroadcast, type, Reduction::kCopy);
    add(Collective::kAllGather, type, Reduction::kCopy);
  }
  return cells;
}

/// Bytes at a chosen misalignment, between two walls whose bytes must stay.
class Walled {
 public:
  Walled(size_t bytes, size_t misalignment) : bytes_(bytes) {
    storage_.assign(bytes + 2 * kWall + 128, kBrick);
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kWall;
    begin_ = kWall + (64 - address % 64) % 64 + misalignment;
  }
  std::byte* data() { return storage_.data() + begin_; }
  std::vector<std::byte> bytes() const {
    return {storage_.begin() + begin_, storage_.begin() + begin_ + bytes_};
  }
  bool walls_stand() const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + bytes_) && storage_[i] != kBrick) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kWall = 64;
  static constexpr std::byte kBrick{0xA5};
  std::vector<std::byte> storage_;
  size_t bytes_ = 0, begin_ = 0;
};

/// One rank's view of a cell: what it gives, where the answer goes, and what that must be.
class Trial {
 public:
  Trial(const Cell& cell, Values values, uint32_t rank, uint32_t world)
      : cell_(cell), rank_(rank), world_(world), root_(static_cast<uint32_t>(cell.seed % world)) {
    const uint64_t in_count = count() * (is(Collective::kReduceScatter) ? world : 1);
    std::vector<std::vector<std::byte>> all;
    for (uint32_t r = 0; r < world; ++r) {
      all.push_back(make_tensor(cell.type, values, cell.reduction, cell.seed, r, in_count));
    }
    in_bytes_ = all[rank];
    make_expectation(all);
  }

  Result<void> run(Group& group) {
    const size_t part = count() * element_bytes(cell_.type);
    const bool in_place = cell_.layout.in_place || is(Collective::kBroadcast);
    Walled in(in_bytes_.size(), cell_.layout.misalignment);
    // In place, a scatter's output lies in its input and a gather's input in its output.
    Walled out(is(Collective::kAllGather) ? part * world_ : part, cell_.layout.misalignment + 2);
    std::memcpy(in.data(), in_bytes_.data(), in_bytes_.size());
    const void* from = in.data();
    void* to = out.data();
    if (in_place && is(Collective::kAllGather)) {
      std::memcpy(out.data() + rank_ * part, in_bytes_.data(), part);
      from = out.data() + rank_ * part;
    } else if (in_place) {
      to = in.data() + (is(Collective::kReduceScatter) ? rank_ * part : 0);
    }
    auto result = call(group, from, to);
    if (!result) return result;
    EXPECT_TRUE(in.walls_stand() && out.walls_stand()) << cell_.text();
    if (!receives()) return result;
    const size_t bytes = expected_.size();
    EXPECT_TRUE(bytes == 0 || std::memcmp(to, expected_.data(), bytes) == 0)
        << cell_.text() << ", rank " << rank_ << " of " << world_ << ": "
        << first_difference(static_cast<const std::byte*>(to));
    if (!in_place) {
      EXPECT_EQ(in.bytes(), in_bytes_) << cell_.text() << ": input changed";
    }
    return result;
  }

 private:
  bool is(Collective collective) const { return cell_.collective == collective; }
  bool receives() const { return !is(Collective::kReduce) || rank_ == root_; }
  uint64_t count() const { return cell_.layout.count; }

  void make_expectation(const std::vector<std::vector<std::byte>>& all) {
    switch (cell_.collective) {
      case Collective::kBroadcast:
        expected_ = all[root_];
        break;
      case Collective::kAllGather:
        for (const auto& one : all) expected_.insert(expected_.end(), one.begin(), one.end());
        break;
      default:
        expected_ = reduce_reference(cell_.type, cell_.reduction, all);
        if (is(Collective::kReduceScatter)) {
          const size_t part = count() * element_bytes(cell_.type);
          expected_ = {expected_.begin() + rank_ * part, expected_.begin() + (rank_ + 1) * part};
        }
    }
  }

  Result<void> call(Group& group, const void* in, void* out) const {
    switch (cell_.collective) {
      case Collective::kAllReduce:
        return group.all_reduce(in, out, count(), cell_.type, cell_.reduction);
      case Collective::kReduce:
        return group.reduce(in, receives() ? out : nullptr, count(), cell_.type, cell_.reduction,
                            root_);
      case Collective::kReduceScatter:
        return group.reduce_scatter(in, out, count(), cell_.type, cell_.reduction);
      case Collective::kBroadcast:
        return group.broadcast(out, count(), cell_.type, root_);
      case Collective::kAllGather:
        return group.all_gather(in, out, count(), cell_.type);
    }
    return {};
  }

  std::string first_difference(const std::byte* got) const {
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (got[i] == expected_[i]) continue;
      const size_t size = element_bytes(cell_.type);
      std::string text = "element " + std::to_string(i / size) + " is ";
      for (size_t b = 0; b < size; ++b) text += hex(got[i / size * size + b]);
      text += " instead of ";
      for (size_t b = 0; b < size; ++b) text += hex(expected_[i / size * size + b]);
      return text;
    }
    return "";
  }
  static std::string hex(std::byte b) {
    const auto value = std::to_integer<unsigned>(b);
    return {"0123456789abcdef"[value >> 4], "0123456789abcdef"[value & 15]};
  }

  const Cell& cell_;
  uint32_t rank_, world_, root_;
  std::vector<std::byte> in_bytes_, expected_;
};

class Matrix : public testing::TestWithParam<std::tuple<Algorithm, uint32_t>> {};

TEST_P(Matrix, EveryCellEqualsTheReference) {
  const auto [algorithm, world] = GetParam();
  const std::vector<Cell> cells = all_cells();
  const Values values = is_canonical(algorithm) ? Values::kAny : Values::kExact;
  with_world(world, algorithm, [&](Context& context) {
    for (const Cell& cell : cells) {
      Trial trial(cell, values, context.rank(), context.size());
      const auto result = trial.run(context.world());
      ASSERT_TRUE(result.has_value()) << cell.text() << ": " << result.error().what;
    }
    const auto together = context.world().barrier();
    EXPECT_TRUE(together.has_value()) << together.error().what;
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Matrix,
                         testing::Combine(testing::ValuesIn(kAlgorithms),
                                          testing::Values(1u, 2u, 3u, 5u, 8u)),
                         [](const auto& one) {
                           return test_name_of(std::get<0>(one.param)) + "_" +
                                  std::to_string(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace sumcast::acceptance
