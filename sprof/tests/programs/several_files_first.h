for (unsigned long round = 0; round < rounds; round++) {
    sum += round * 3;
    sum ^= sum >> 7;
}
