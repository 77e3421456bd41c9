#include "estimate/structural/rows.h"

#include <algorithm>
#include <array>

#include "model/op.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::RowKind;
using Kind = Row::Kind;

Kind KindOf(const Layer& layer) {
  switch (layer.kind) {
    case RowKind::kLeaf:
      return Kind::kOperation;
    case RowKind::kBlock:
      return Kind::kBlock;
    case RowKind::kContainer:
      return Kind::kContainer;
    case RowKind::kUnknown:
      break;
  }
  return model::IsOperation(layer) ? Kind::kOperation : Kind::kContainer;
}

// Caches one rule per type. A model has few types, and most rows have a recently used type.
class Rules {
 public:
  explicit Rules(std::deque<TypeRule>& rules) : rules_(rules) {}
  const LayerRule* Of(std::string_view type) {
    const TypeRule*& guess =
        last_[(type.size() + static_cast<unsigned char>(type.empty() ? 0 : type.front())) %
              kGuesses];
    if (guess == nullptr || guess->type != type) guess = &Find(type);
    return &guess->rule;
  }

 private:
  static constexpr std::size_t kGuesses = 16;

  const TypeRule& Find(std::string_view type) {
    const auto known =
        std::ranges::find_if(rules_, [&](const TypeRule& each) { return each.type == type; });
    return known != rules_.end() ? *known : rules_.emplace_back(TypeRule{type, RuleOf(type)});
  }

  std::deque<TypeRule>& rules_;
  std::array<const TypeRule*, kGuesses> last_{};
};

// Marks the rows inside a block with parallel paths. Such rows are listed before the block, and
// their names begin with the block's name. In a list without names, they are the convolutions,
// norms and their wrappers directly before the block; the last row may also be an activation.
void MarkWays(std::vector<Row>& rows, std::size_t container) {
  const std::string& name = rows[container].layer->name;
  const auto belongs = [&](std::size_t at) {
    const Row& row = rows[at];
    if (!name.empty()) return row.layer->name.starts_with(name + ".");
    if (row.kind != Kind::kOperation) return row.rule->wraps_one;
    return row.rule->convolution || row.rule->role == Role::kNorm ||
           row.rule->role == Role::kTransparent || at + 1 == container;
  };
  std::size_t first = container;
  while (first > 0 && belongs(first - 1) && !rows[first - 1].ways) --first;
  for (std::size_t i = first; i < container; ++i) rows[i].ways = first;
}

}  // namespace

Rows RowsOf(const LayerList& list) {
  Rows made;
  Rules rules(made.rules);
  made.rows.resize(list.layers.size());
  bool attention = false;
  for (std::size_t i = made.rows.size(); i-- > 0;) {
    Row& row = made.rows[i];
    row.layer = &list.layers[i];
    row.rule = rules.Of(row.layer->type);
    row.kind = KindOf(*row.layer);
    row.knows_input = !row.layer->in.empty();
    row.out = Elements(row.layer->out);
    row.in = Elements(row.layer->in);
    if (row.rule->role == Role::kDropout)
      row.dropout = row.layer->dropout.value_or(list.dropout.value_or(0));
    if (row.kind != Kind::kOperation) attention = row.rule->attention;
    row.before_attention = attention;
  }
  for (std::size_t i = 0; i < made.rows.size(); ++i) {
    const Row& row = made.rows[i];
    if (row.rule->parallel_branches && row.kind != Kind::kOperation) MarkWays(made.rows, i);
  }
  return made;
}

bool IsAttentionMatrix(const model::Shape& shape) {
  const std::size_t rank = shape.rank();
  return rank >= 3 && shape.last() > 1 && shape[rank - 1] == shape[rank - 2];
}

bool IsProduct(const Row& row) {
  return row.rule->role == Role::kMatrix ||
         (row.rule->role == Role::kOther && row.layer->params > 0);
}

}  // namespace carma::estimate
