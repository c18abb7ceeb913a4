for (unsigned long round = 0; round < rounds; round++) {
    sum -= round * 5;
    sum ^= sum << 3;
}
