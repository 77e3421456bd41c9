// A value that many objects share and that rarely changes. Copies share the value until one of them
// is edited.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

namespace carma::base {

// As small as a pointer, and converts to const T&. A value equal to T{} is not allocated, so rarely
// used members cost nothing. As with shared_ptr, copies may be read and destroyed on different
// threads.
template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  CopyOnWrite(T value) : kept_(value == kEmpty ? nullptr : new Kept{.value = std::move(value)}) {}
  // Implicit, so a literal can be passed for a string, and a plain value for an optional.
  template <class U>
  requires(!std::derived_from<U, CopyOnWrite> && !std::same_as<U, T> &&
           std::convertible_to<const U&, T>) CopyOnWrite(const U& value)
      : CopyOnWrite(T(value)) {}
  CopyOnWrite(const CopyOnWrite& other) : kept_(other.kept_) {
    if (kept_ != nullptr) kept_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  CopyOnWrite(CopyOnWrite&& other) noexcept : kept_(std::exchange(other.kept_, nullptr)) {}
  CopyOnWrite& operator=(CopyOnWrite other) noexcept {
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~CopyOnWrite() {
    if (kept_ != nullptr && kept_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete kept_;
  }

  const T& operator*() const { return kept_ != nullptr ? kept_->value : kEmpty; }
  const T* operator->() const { return &**this; }
  operator const T&() const { return **this; }

  // Returns a private copy that may be changed. The reference is valid until this object is copied,
  // assigned or destroyed.
  T& Edit() {
    if (kept_ == nullptr) {
      kept_ = new Kept;
    } else if (kept_->holders.load(std::memory_order_acquire) > 1) {
      CopyOnWrite own;
      own.kept_ = new Kept{.value = kept_->value};
      *this = std::move(own);
    }
    return kept_->value;
  }
  // Frees the value if Edit has made it equal to T{}.
  void Trim() {
    if (**this == kEmpty) *this = CopyOnWrite();
  }
  // If both values are equal, shares the value of `other` and returns true.
  bool ShareWith(const CopyOnWrite& other) {
    if (!(*this == other)) return false;
    *this = other;
    return true;
  }

  friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b) {
    return a.kept_ == b.kept_ || *a == *b;
  }

 private:
  struct Kept {
    std::atomic<std::uint32_t> holders{1};
    T value{};
  };
  inline static const T kEmpty{};

  Kept* kept_ = nullptr;
};

// A shared value that may be absent, with the interface of std::optional.
template <class T>
class SharedOptional : public CopyOnWrite<std::optional<T>> {
 public:
  using Base = CopyOnWrite<std::optional<T>>;
  using Base::Base;

  explicit operator bool() const { return Whole().has_value(); }
  const T& operator*() const { return *Whole(); }
  const T* operator->() const { return &*Whole(); }
  void reset() { *this = SharedOptional(); }

  friend bool operator==(const SharedOptional& a, const SharedOptional& b) {
    return static_cast<const Base&>(a) == static_cast<const Base&>(b);
  }

 private:
  const std::optional<T>& Whole() const { return Base::operator*(); }
};

}  // namespace carma::base
