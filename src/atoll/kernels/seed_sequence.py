"""The numbers of numpy's ``SeedSequence``, which it promises never to change."""

INIT_A, MULT_A = 0x43B0D7E5, 0x931E8875
INIT_B, MULT_B = 0x8B51F9DD, 0x58F38DED
MIX_L, MIX_R = 0xCA01F9DD, 0x4973F715
POOL, SHIFT = 4, 16
# What SFC64 is seeded by: three words of 64 bits.
SEED = 6
