#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/plan/allocation.hpp>

/// The networks that DT-FM is judged by, and uneven ones of the same figures.
///
/// Source of latencies, rates and workload: Yuan et al., arXiv 2206.01288, section 4.1, as its published program
/// has them.
namespace reef_bench {

struct Link {
  double latency_ms;
  double gbps;
};

struct Route {
  std::string_view a;
  std::string_view b;
  Link link;
};

inline constexpr std::array<std::string_view, 10> cities{
    "Oregon", "Virginia",  "Ohio",    "Tokyo",     "Seoul",
    "London", "Frankfurt", "Ireland", "Singapore", "Sydney"};

inline constexpr std::array<Route, 45> routes{
    {{"Oregon", "Virginia", {67, 0.79}},      {"Oregon", "Ohio", {49, 1.1}},
     {"Oregon", "Tokyo", {96, 0.523}},        {"Oregon", "Seoul", {124, 0.46}},
     {"Oregon", "Singapore", {163, 0.341}},   {"Oregon", "Sydney", {139, 0.36}},
     {"Oregon", "London", {136, 0.42}},       {"Oregon", "Frankfurt", {143, 0.404}},
     {"Oregon", "Ireland", {124, 0.482}},     {"Virginia", "Ohio", {11, 1.12}},
     {"Virginia", "Tokyo", {143, 0.524}},     {"Virginia", "Seoul", {172, 0.5}},
     {"Virginia", "Singapore", {230, 0.364}}, {"Virginia", "Sydney", {197, 0.383}},
     {"Virginia", "London", {76, 1.16}},      {"Virginia", "Frankfurt", {90, 1.02}},
     {"Virginia", "Ireland", {67, 1.05}},     {"Ohio", "Tokyo", {130, 0.694}},
     {"Ohio", "Seoul", {159, 0.529}},         {"Ohio", "Singapore", {197, 0.452}},
     {"Ohio", "Sydney", {185, 0.484}},        {"Ohio", "London", {86, 1.05}},
     {"Ohio", "Frankfurt", {99, 0.799}},      {"Ohio", "Ireland", {77, 1.14}},
     {"Tokyo", "Seoul", {34, 1.1}},           {"Tokyo", "Singapore", {73, 1.01}},
     {"Tokyo", "Sydney", {100, 0.761}},       {"Tokyo", "London", {210, 0.366}},
     {"Tokyo", "Frankfurt", {223, 0.36}},     {"Tokyo", "Ireland", {199, 0.465}},
     {"Seoul", "Singapore", {74, 1.14}},      {"Seoul", "Sydney", {148, 0.58}},
     {"Seoul", "London", {238, 0.342}},       {"Seoul", "Frankfurt", {235, 0.358}},
     {"Seoul", "Ireland", {228, 0.335}},      {"Singapore", "Sydney", {92, 0.816}},
     {"Singapore", "London", {169, 0.5}},     {"Singapore", "Frankfurt", {155, 0.535}},
     {"Singapore", "Ireland", {179, 0.492}},  {"Sydney", "London", {262, 0.326}},
     {"Sydney", "Frankfurt", {265, 0.328}},   {"Sydney", "Ireland", {254, 0.344}},
     {"London", "Frankfurt", {14, 1.14}},     {"London", "Ireland", {12, 1.09}},
     {"Frankfurt", "Ireland", {24, 1.08}}}};

inline Link link_between(std::string_view a, std::string_view b) {
  if (a == b) return {5, 2};
  for (const Route& route : routes) {
    if ((route.a == a && route.b == b) || (route.a == b && route.b == a)) return route.link;
  }
  throw reef::OptionError("no route from ", std::string(a), " to ", std::string(b));
}

struct NamedNetwork {
  std::string name;
  reef::plan::AllocationProblem problem;
};

/// A problem of DT-FM's workload over links that `link` gives for each pair of devices.
template <class LinkOf>
NamedNetwork network_of(std::string name, int stages, int pipelines, LinkOf link) {
  NamedNetwork result{std::move(name), {}};
  reef::plan::AllocationProblem& problem = result.problem;
  problem.stages = stages;
  problem.pipelines = pipelines;
  problem.activation_bytes = 471249222.7554321;
  problem.gradient_bytes = 650000000;
  const int devices = stages * pipelines;
  problem.network.devices = devices;
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < devices; ++b) {
      const Link of_pair = a == b ? Link{0, 1} : a < b ? link(a, b) : link(b, a);
      problem.network.latencies.push_back(of_pair.latency_ms * 1e-3);
      problem.network.rates.push_back(of_pair.gbps * 1e9 / 8);
    }
  }
  return result;
}

/// The five cases of the paper, 64 devices each, in 8 pipelines of 8 stages.
inline std::vector<NamedNetwork> paper_networks() {
  const auto nodes = [](int per_node, int of_nodes, double slow) {
    return [=](int a, int b) {
      const bool together = a / per_node == b / per_node && a < of_nodes && b < of_nodes;
      return Link{0, together ? 100 : slow};
    };
  };
  constexpr std::array<std::string_view, 3> routes_of_california{"Virginia", "Oregon", "Ohio"};
  constexpr std::array<Link, 3> from_california{{{59, 1.05}, {12, 1.25}, {52, 1.02}}};
  const auto regional = [=](int a, int b) -> Link {
    constexpr std::array<std::string_view, 4> region{"Virginia", "Oregon", "California", "Ohio"};
    const std::string_view x = region.at(static_cast<std::size_t>(a / 16));
    const std::string_view y = region.at(static_cast<std::size_t>(b / 16));
    if (x == y) return {5, 2};
    for (std::size_t i = 0; i < 3; ++i) {
      const bool there = x == routes_of_california.at(i) && y == "California";
      if (there || (x == "California" && y == routes_of_california.at(i)))
        return from_california.at(i);
    }
    // Of Virginia and Oregon the regional case has a rate of its own.
    if (x == "Virginia" && y == "Oregon") return {67, 1.15};
    return link_between(x, y);
  };
  std::vector<NamedNetwork> result;
  result.push_back(network_of("1: data centre, 8 nodes of 8", 8, 8, nodes(8, 64, 3.125)));
  result.push_back(network_of("2: spot, 8 nodes of 4 and 32 alone", 8, 8, nodes(4, 32, 1.25)));
  result.push_back(network_of("3: two data centres", 8, 8, [](int a, int b) {
    return a / 32 == b / 32 ? Link{1, 5} : Link{11, 1.12};
  }));
  result.push_back(network_of("4: four regions", 8, 8, regional));
  result.push_back(network_of("5: eight regions worldwide", 8, 8, [](int a, int b) {
    return link_between(cities.at(static_cast<std::size_t>(a / 8)),
                        cities.at(static_cast<std::size_t>(b / 8)));
  }));
  return result;
}

/// A link with log-normal noise of its own on latency and rate.
inline Link noisy(Link link, double deviation, std::uint64_t seed, int a, int b) {
  const reef::DrawKey key{seed, static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b),
                          0, 1};
  return {link.latency_ms * std::exp(deviation * reef::normal(key, 0)),
          link.gbps * std::exp(deviation * reef::normal(key, 1))};
}

/// The city, by number, where a device is.
inline int city_of(std::uint64_t seed, int device) {
  const reef::DrawKey key{seed, static_cast<std::uint64_t>(device), 0, 0};
  return static_cast<int>(reef::random_bits(key, 0) % cities.size());
}

/// Devices at random over the ten cities.
inline NamedNetwork worldwide_network(std::string name, int stages, int pipelines, double deviation,
                                      std::uint64_t seed) {
  std::vector<std::string_view> where;
  for (int d = 0; d < stages * pipelines; ++d)
    where.push_back(cities.at(static_cast<std::size_t>(city_of(seed, d))));
  return network_of(std::move(name), stages, pipelines, [&](int a, int b) {
    const Link link =
        link_between(where[static_cast<std::size_t>(a)], where[static_cast<std::size_t>(b)]);
    return deviation > 0 ? noisy(link, deviation, seed, a, b) : link;
  });
}

/// Case 5 with noise on every pair.
inline NamedNetwork noisy_case_5(std::string name, double deviation, std::uint64_t seed) {
  return network_of(std::move(name), 8, 8, [&](int a, int b) {
    const Link link = link_between(cities.at(static_cast<std::size_t>(a / 8)),
                                   cities.at(static_cast<std::size_t>(b / 8)));
    return noisy(link, deviation, seed, a, b);
  });
}

}  // namespace reef_bench
