#include "recipes.hpp"

#include <map>
#include <string>
#include <vector>

#include "options.hpp"

namespace reef_examples {

namespace {

const std::map<std::string, Recipe> recipes{
    {"ddp", run_ddp},         {"zero1", run_zero1}, {"atom", run_atom},    {"dpu", run_dpu},
    {"acco-wp", run_acco_wp}, {"acco", run_acco},   {"diloco", run_diloco}, {"sparse", run_sparse},
    {"dtfm", run_dtfm},       {"fusion", run_dtfm}, {"reef", run_reef}};

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& [name, run] : recipes) names.push_back(name);
  return names;
}

Recipe recipe_of(const std::string& name) { return recipes.at(name); }

}  // namespace reef_examples
