void part_old();
void part_new();

int main() {
  part_old();
  part_new();
}
