// A program that uses one thing of Reef alone, and pays for nothing else.

#include <cstdio>

#include <reef/core/shape.hpp>
#include <reef/core/version.hpp>

int main() {
  const reef::Shape shape{2, 3, 4};
  std::printf("reef %s: %s holds %lld elements\n", reef::version, shape.text().c_str(),
              static_cast<long long>(shape.size()));
}
