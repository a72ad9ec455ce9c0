// Groups of UDP on the loopback device.
#include "inet.h"

int main(void) {
    int receiver = MUST(socket(AF_INET, SOCK_DGRAM, 0)), other = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    int sender = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    T(set_int(receiver, SOL_SOCKET, SO_REUSEADDR, 1));
    T(set_int(other, SOL_SOCKET, SO_REUSEADDR, 1));
    struct sockaddr_in any = in4("0.0.0.0", 0);
    MUST(bind(receiver, AS(any)));
    any.sin_port = htons(port_of(receiver));
    T(bind(other, AS(any)));
    struct sockaddr_in group = in4("239.1.2.3", port_of(receiver));
    struct ip_mreq join = {group.sin_addr, {htonl(INADDR_LOOPBACK)}};
    struct ip_mreqn by_index = {{inet_addr("239.1.2.4")}, {0}, 1};
    struct ip_mreq bad = {{htonl(INADDR_LOOPBACK)}, {htonl(INADDR_LOOPBACK)}};
    T(setsockopt(receiver, IPPROTO_IP, IP_ADD_MEMBERSHIP, &bad, sizeof bad));
    T(setsockopt(receiver, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, 4));
    T(setsockopt(receiver, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
    T(setsockopt(receiver, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
    T(setsockopt(receiver, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_index, sizeof by_index));
    by_index.imr_ifindex = 9999;
    T(setsockopt(receiver, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_index, sizeof by_index));
    struct in_addr device = {htonl(INADDR_LOOPBACK)}, none = {htonl(0x08080808)};
    T(setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF, &none, sizeof none));
    T(setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF, &device, sizeof device));
    T(set_int(other, IPPROTO_IP, IP_MULTICAST_ALL, 0));
    T(sendto(sender, "to the group", 12, 0, AS(group)));
    RECEIVE(receiver, 50, 0);
    RECEIVE(other, 50, MSG_DONTWAIT);
    T(set_int(sender, IPPROTO_IP, IP_MULTICAST_TTL, 3));
    T(int_option(sender, IPPROTO_IP, IP_MULTICAST_TTL));
    T(setsockopt(receiver, IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof join));
    T(setsockopt(receiver, IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof join));
    T(sendto(sender, "nobody", 6, 0, AS(group)));
    RECEIVE(receiver, 50, MSG_DONTWAIT);
    return 0;
}
