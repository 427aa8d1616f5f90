#include <reef/core/group.hpp>

#include <climits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace reef;
using testing::HasSubstr;

TEST(Group, knows_the_position_of_each_member_and_of_no_other_rank) {
  const Group group{"stage 0", {1, 3, 4, 9}};
  group.validate();
  EXPECT_EQ(group.size(), 4);
  for (int position = 0; position < group.size(); ++position) {
    EXPECT_EQ(group.position_of(group.members[static_cast<std::size_t>(position)]), position);
  }
  for (const int rank : {INT_MIN, -1, 0, 2, 5, 8, 10, INT_MAX}) {
    EXPECT_EQ(group.position_of(rank), -1) << rank;
    EXPECT_FALSE(group.has(rank)) << rank;
  }
  EXPECT_TRUE(group.has(9));
  EXPECT_EQ(Group{}.position_of(0), -1);
  EXPECT_EQ(Group{}.size(), 0);
}

TEST(Group, equals_one_of_the_same_name_and_members) {
  const Group group{"stage 0", {1, 3}};
  EXPECT_EQ(group, (Group{"stage 0", {1, 3}}));
  EXPECT_NE(group, (Group{"stage 1", {1, 3}}));
  EXPECT_NE(group, (Group{"stage 0", {1, 2}}));
  EXPECT_NE(group, (Group{"stage 0", {1}}));
}

std::string refusal(const Group& group) {
  try {
    group.validate();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Group, refuses_what_is_no_list_of_ranks_and_says_where) {
  EXPECT_EQ(refusal({"one", {0}}), "accepted");
  EXPECT_EQ(refusal({"far", {0, INT_MAX}}), "accepted");
  EXPECT_THAT(refusal({"", {0}}), HasSubstr("has no name"));
  EXPECT_THAT(refusal({"empty", {}}), HasSubstr("the members of 'empty' are none"));
  EXPECT_THAT(refusal({"below", {-1, 2}}), HasSubstr("begin with rank -1"));
  EXPECT_THAT(refusal({"twice", {0, 2, 2}}), HasSubstr("have rank 2 after rank 2"));
  EXPECT_THAT(refusal({"falling", {0, 3, 1}}), HasSubstr("have rank 1 after rank 3"));
}

}  // namespace
