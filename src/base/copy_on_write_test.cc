#include "base/copy_on_write.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace carma::base {
namespace {

struct Thing {
  std::string name;
  int size = 7;
  friend bool operator==(const Thing&, const Thing&) = default;
};

TEST(CopyOnWrite, ReadsAsTheDefaultUntilItHasAValue) {
  const CopyOnWrite<Thing> none;
  EXPECT_EQ(none->size, 7);
  EXPECT_EQ(*none, Thing{});
  EXPECT_EQ(none, CopyOnWrite<Thing>(Thing{}));
  EXPECT_EQ(sizeof(none), sizeof(void*));
}

TEST(CopyOnWrite, CopiesShareUntilOneIsEdited) {
  CopyOnWrite<Thing> first = Thing{.name = "first", .size = 1};
  CopyOnWrite<Thing> second = first;
  EXPECT_EQ(&*first, &*second);
  second.Edit().name = "second";
  EXPECT_EQ(first->name, "first");
  EXPECT_EQ(second->name, "second");
  EXPECT_EQ(second->size, 1);
  const Thing* own = &*second;
  second.Edit().size = 2;
  EXPECT_EQ(&*second, own) << "an unshared value is changed in place";
}

TEST(CopyOnWrite, EditOfAnEmptyObjectStartsFromTheDefault) {
  CopyOnWrite<Thing> thing;
  thing.Edit().name = "new";
  EXPECT_EQ(*thing, (Thing{.name = "new", .size = 7}));
  EXPECT_EQ(*CopyOnWrite<Thing>(), Thing{});
}

TEST(CopyOnWrite, AValueLikeTheDefaultIsNotStored) {
  const CopyOnWrite<Thing> none;
  CopyOnWrite<Thing> thing = Thing{};
  EXPECT_EQ(&*thing, &*none);
  thing.Edit().size = 7;
  EXPECT_NE(&*thing, &*none);
  thing.Trim();
  EXPECT_EQ(&*thing, &*none);
  thing.Edit().size = 8;
  thing.Trim();
  EXPECT_EQ(thing->size, 8);
}

TEST(CopyOnWrite, EqualObjectsShareOneValue) {
  CopyOnWrite<Thing> first = Thing{.name = "same"};
  CopyOnWrite<Thing> second = Thing{.name = "same"};
  CopyOnWrite<Thing> other = Thing{.name = "other"};
  EXPECT_NE(&*first, &*second);
  EXPECT_TRUE(second.ShareWith(first));
  EXPECT_EQ(&*first, &*second);
  EXPECT_FALSE(other.ShareWith(first));
  EXPECT_EQ(other->name, "other");
}

TEST(CopyOnWrite, IsEmptyAfterAMove) {
  CopyOnWrite<Thing> from = Thing{.name = "there"};
  const CopyOnWrite<Thing> to = std::move(from);
  EXPECT_EQ(to->name, "there");
  EXPECT_EQ(*from, Thing{});
}

TEST(CopyOnWrite, CopiesAreReadAndDestroyedOnOtherThreads) {
  CopyOnWrite<Thing> mine = Thing{.name = "mine"};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([copy = mine] {
      for (int round = 0; round < 1000; ++round) {
        const CopyOnWrite<Thing> again = copy;
        EXPECT_EQ(again->name, "mine");
      }
    });
  }
  mine.Edit().name = "changed";
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(mine->name, "changed");
}

TEST(CopyOnWrite, ConvertsFromWhateverConvertsToItsValue) {
  const CopyOnWrite<std::string> text = "a literal";
  EXPECT_EQ(*text, "a literal");
  EXPECT_TRUE(CopyOnWrite<std::string>("")->empty());
}

TEST(SharedOptional, ReadsAsAnOptional) {
  SharedOptional<Thing> none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none, std::nullopt);
  SharedOptional<Thing> thing = Thing{.name = "there"};
  ASSERT_TRUE(thing);
  EXPECT_EQ(thing->name, "there");
  EXPECT_EQ(thing, (Thing{.name = "there"}));
  EXPECT_NE(thing, none);
  const std::optional<Thing>& plain = thing;
  EXPECT_EQ(&*plain, &*thing) << "the same object";
  SharedOptional<Thing> same = plain;
  EXPECT_NE(&*same, &*thing);
  EXPECT_TRUE(same.ShareWith(thing));
  EXPECT_EQ(&*same, &*thing);
  thing.reset();
  EXPECT_FALSE(thing);
  EXPECT_TRUE(same);
  EXPECT_TRUE(SharedOptional<Thing>(Thing{})) << "a value is present, although it equals Thing{}";
}

}  // namespace
}  // namespace carma::base
