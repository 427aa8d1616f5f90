#pragma once

#include <type_traits>

#include <reef/core/language.hpp>  // first: Boost.Hana has errors of its own below C++14

// Names of Boost.Hana that are macros of other headers: <complex.h> of C, Xlib, <strings.h>.
#pragma push_macro("Bool")
#pragma push_macro("False")
#pragma push_macro("I")
#pragma push_macro("None")
#pragma push_macro("Status")
#pragma push_macro("True")
#pragma push_macro("Zero")
#pragma push_macro("check")
#pragma push_macro("index")
#undef Bool
#undef False
#undef I
#undef None
#undef Status
#undef True
#undef Zero
#undef check
#undef index
#include <boost/hana/count_if.hpp>
#include <boost/hana/equal.hpp>
#include <boost/hana/find_if.hpp>
#include <boost/hana/integral_constant.hpp>
#include <boost/hana/optional.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#pragma pop_macro("Bool")
#pragma pop_macro("False")
#pragma pop_macro("I")
#pragma pop_macro("None")
#pragma pop_macro("Status")
#pragma pop_macro("True")
#pragma pop_macro("Zero")
#pragma pop_macro("check")
#pragma pop_macro("index")

#include <reef/core/policy_tag.hpp>

namespace reef {
inline namespace v0 {

/// A trait whose member `type` is P::policy_tag, or void if P is not a policy.
template <class P>
struct PolicyTagOf {
  using type = void;
};
template <class P>
  requires requires { typename P::policy_tag; }
struct PolicyTagOf<P> {
  using type = typename P::policy_tag;
};
template <class P>
using policy_tag_of = typename PolicyTagOf<P>::type;

/// The tag type of one of the axes (swap, pipeline, compression, ...) on which a Trainer has a policy (policy_tag.hpp).
template <class Tag>
concept policy_axis = std::is_same_v<Tag, SwapTag> || std::is_same_v<Tag, PipelineTag> ||
                      std::is_same_v<Tag, CompressTag> || std::is_same_v<Tag, OptimTag> ||
                      std::is_same_v<Tag, DeviceTag> || std::is_same_v<Tag, PrecisionTag>;

/// A policy: a type that fills one axis of a Trainer (swap, pipeline, compression, ...), named by its member type
/// policy_tag.
template <class P>
concept policy = policy_axis<policy_tag_of<P>>;

/// An empty struct, the options type of a policy without options.
struct NoOptions {};

namespace detail {

template <class P>
struct OptionsOf {
  using type = NoOptions;
};
template <class P>
  requires requires { typename P::Options; }
struct OptionsOf<P> {
  using type = typename P::Options;
};

}  // namespace detail

/// The type of policy P's options in TrainerOptions: P::Options if P has options, else NoOptions.
template <class P>
using options_of = typename detail::OptionsOf<P>::type;

namespace detail {

template <class Tag>
struct HasTag {
  template <class P>
  constexpr auto operator()(P) const {
    return boost::hana::bool_c<std::is_same_v<policy_tag_of<typename P::type>, Tag>>;
  }
};

template <class Tag, class... Policies>
inline constexpr auto policies_of_axis =
    decltype(boost::hana::count_if(boost::hana::tuple_t<Policies...>, HasTag<Tag>{}))::value;

template <class Tag, class Neutral, class... Policies>
using find_policy =
    typename std::remove_cvref_t<decltype(boost::hana::find_if(boost::hana::tuple_t<Policies...>,
                                                               HasTag<Tag>{})
                                              .value_or(boost::hana::type_c<Neutral>))>::type;

}  // namespace detail

/// A list of policies of which no two fill the same axis (swap, pipeline, compression, ...) of a Trainer.
template <class... Policies>
concept one_policy_per_axis = ((detail::policies_of_axis<policy_tag_of<Policies>, Policies...> <= 1) &&
                               ...);

#define REEF_P1_EVERY_ARGUMENT_IS_A_POLICY                                                       \
  "reef P1: one of the template arguments is not a policy.\n"                                    \
  "  why: each argument fills one axis (swap, pipeline, compress, optim, device, precision).\n"  \
  "  fix: give the type `using policy_tag = reef::OptimTag;` (or the tag of its axis), or "      \
  "remove it.\n"                                                                                 \
  "  see: docs/rules.md#p1"

#define REEF_P2_ONE_POLICY_PER_AXIS                                                              \
  "reef P2: two of the policies fill the same axis.\n"                                           \
  "  why: a step has one swap, one pipeline, one compressor, one optimizer, one device and one " \
  "precision.\n"                                                                                 \
  "  fix: keep one of the two, or wrap one in the other where the axis has wrappers.\n"          \
  "  see: docs/rules.md#p2"

/// A list of policies in any order, at most one for each axis of a Trainer; an axis without one gets its neutral
/// policy.
///
/// \code
/// struct Streamed {
///   using policy_tag = SwapTag;
/// };
/// struct Whole {
///   using policy_tag = PipelineTag;
/// };
/// using Pack = PolicyPack<precision::Bf16, Streamed>;
/// using Precision = Pack::get<PrecisionTag, precision::Fp32>;  // precision::Bf16
/// using Pipeline = Pack::get<PipelineTag, Whole>;              // Whole: no policy fills the axis
/// \endcode
///
/// | errors | a type that is not a policy, or two policies for one axis: one sentence at compile time |
/// | cost   | compile time only; nothing at run time                                                  |
template <class... Policies>
struct PolicyPack {
  /// The policy of the list that fills the axis Tag, or Neutral if none does.
  template <policy_axis Tag, class Neutral>
  using get = detail::find_policy<Tag, Neutral, Policies...>;

  // These assertions come last, since clang knows no member behind a failed assertion, and would report those as
  // missing.
  static_assert((policy<Policies> && ...), REEF_P1_EVERY_ARGUMENT_IS_A_POLICY);
  static_assert(one_policy_per_axis<Policies...>, REEF_P2_ONE_POLICY_PER_AXIS);
};

}  // namespace v0
}  // namespace reef
