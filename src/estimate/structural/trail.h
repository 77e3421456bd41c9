// The tensors that the graph (graph.h) has made so far, oldest first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "model/layers.h"

namespace carma::estimate {

// Elements per sample.
inline double Elements(const model::Shape& shape) {
  return static_cast<double>(shape.Elements());
}
inline std::int64_t Dimension(const model::Shape& shape, std::size_t i) {
  return std::abs(shape[i]);
}

struct Tensor {
  enum class Maker {
    kInput,
    kMatrix,    // a convolution or linear layer whose result is not kept yet
    kNorm,      // a norm without an activation
    kGate,      // sigmoid, softmax: will be multiplied by another tensor
    kFunction,  // code between the modules: a concatenation, a sum, a product
    kOther,
  };
  static constexpr int kNobody = -1;

  double elements = 0;  // per sample
  model::Shape shape;   // as printed; may be empty
  Maker maker = Maker::kOther;
  bool linear = false;       // made by a linear layer
  bool opens_block = false;  // an activation before the block's first product, not in place
  bool kept = false;         // a backward pass needs it; counted once
  int from = kNobody;        // the tensor that it was made from
};

class Trail {
 public:
  static constexpr std::size_t kMemory = 24;  // a block's branches reach this far back

  void Reserve(std::size_t tensors) {
    tensors_.reserve(tensors);
    recent_.reserve(tensors);
  }
  int Add(const Tensor& tensor) {
    tensors_.push_back(tensor);
    recent_.push_back(static_cast<int>(tensors_.size()) - 1);
    return recent_.back();
  }
  // Adds a tensor that only one row reads and that Newest() does not find.
  int AddPrivate(const Tensor& tensor) {
    tensors_.push_back(tensor);
    return static_cast<int>(tensors_.size()) - 1;
  }
  const std::vector<Tensor>& all() const { return tensors_; }
  Tensor& operator[](int index) { return tensors_[static_cast<std::size_t>(index)]; }
  const Tensor& operator[](int index) const { return tensors_[static_cast<std::size_t>(index)]; }

  // The newest tensor for which fits() returns true, or kNobody. Looks only at the last kMemory
  // tensors.
  template <class Fits>
  int Newest(Fits fits) const {
    const std::size_t first = recent_.size() > kMemory ? recent_.size() - kMemory : 0;
    for (std::size_t i = recent_.size(); i-- > first;) {
      if (fits((*this)[recent_[i]])) return recent_[i];
    }
    return Tensor::kNobody;
  }
  // Later rows can read the result of a matrix product only if it is kept.
  static bool IsReadable(const Tensor& tensor) {
    return tensor.kept || tensor.maker != Tensor::Maker::kMatrix;
  }
  // Forgets tensors made by code between modules, because later blocks do not read them.
  void LeaveBlock(int current) {
    std::erase_if(recent_, [&](int index) {
      return index != current && (*this)[index].maker == Tensor::Maker::kFunction;
    });
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<int> recent_;
};

}  // namespace carma::estimate
