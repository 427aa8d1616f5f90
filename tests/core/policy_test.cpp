#include <reef/core/policy.hpp>

#include <gtest/gtest.h>

#include <type_traits>

namespace reef::test {

namespace {

struct Neutral {};
struct Swap {
  using policy_tag = SwapTag;
};
struct Pipeline {
  using policy_tag = PipelineTag;
};
struct Compress {
  using policy_tag = CompressTag;
};
struct Optim {
  using policy_tag = OptimTag;
};
struct OtherOptim {
  using policy_tag = OptimTag;
};
struct NotAnAxis {
  using policy_tag = int;
};

template <class... P>
inline constexpr bool finds_all =
    std::is_same_v<typename PolicyPack<P...>::template get<SwapTag, Neutral>, Swap> &&
    std::is_same_v<typename PolicyPack<P...>::template get<PipelineTag, Neutral>, Pipeline> &&
    std::is_same_v<typename PolicyPack<P...>::template get<CompressTag, Neutral>, Compress> &&
    std::is_same_v<typename PolicyPack<P...>::template get<OptimTag, Neutral>, Optim>;

}  // namespace

TEST(PolicyPack, finds_each_policy_in_any_order) {
  EXPECT_TRUE((finds_all<Swap, Pipeline, Compress, Optim>));
  EXPECT_TRUE((finds_all<Optim, Compress, Pipeline, Swap>));
  EXPECT_TRUE((finds_all<Compress, Swap, Optim, Pipeline>));
}

TEST(PolicyPack, gives_the_neutral_element_where_an_axis_is_left_out) {
  EXPECT_TRUE((std::is_same_v<PolicyPack<>::get<SwapTag, Neutral>, Neutral>));
  EXPECT_TRUE((std::is_same_v<PolicyPack<Optim>::get<SwapTag, Neutral>, Neutral>));
  EXPECT_TRUE((std::is_same_v<PolicyPack<Optim>::get<DeviceTag, Neutral>, Neutral>));
}

TEST(PolicyPack, sees_duplicates_and_strangers) {
  EXPECT_TRUE((one_policy_per_axis<>));
  EXPECT_TRUE((one_policy_per_axis<Swap, Optim>));
  EXPECT_FALSE((one_policy_per_axis<Optim, Swap, OtherOptim>));
  EXPECT_TRUE(policy<Swap>);
  EXPECT_FALSE(policy<Neutral>);
  EXPECT_FALSE(policy<NotAnAxis>);
  EXPECT_FALSE(policy<int>);
}

}  // namespace reef::test
