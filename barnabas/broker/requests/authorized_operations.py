"""The authorized operations in responses of a broker without access rules: all of them."""

NOT_ASKED = -0x8000_0000

# One bit per operation: read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster
# action 9, describe configs 10, alter configs 11, idempotent write 12.
TOPIC_OPERATIONS = 0b0_1101_1111_1000
GROUP_OPERATIONS = 0b0_1101_0100_1000
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
