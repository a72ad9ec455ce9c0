// Calls of sockets, and dup, on every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"

static struct sockaddr_un missing = {AF_UNIX, "missing"}, bound = {AF_UNIX, "bound"};
static struct sockaddr_storage address;
static struct msghdr message = {0};
static struct mmsghdr messages[1] = {{{0}}};
static char buffer[16] = "";
static int value;
static socklen_t length;

int main(void) {
    objects_start();
    EACH((unlink("bound"), bind(fd, (void *)&bound, sizeof bound)));
    EACH(bind(fd, (void *)&bound, 1));
    EACH(bind(fd, (void *)&bound, -1));
    EACH(bind(fd, BAD, sizeof bound));
    EACH(connect(fd, (void *)&missing, sizeof missing));
    EACH(connect(fd, (void *)&missing, 1));
    EACH(connect(fd, BAD, sizeof missing));
    EACH(listen(fd, 1));
    EACH(accept(fd, NULL, NULL));
    EACH(accept4(fd, NULL, NULL, 1));
    EACH(shutdown(fd, SHUT_RDWR));
    EACH(shutdown(fd, 3));
    EACH((length = sizeof address, getsockname(fd, (void *)&address, &length)));
    EACH((length = -1, getsockname(fd, (void *)&address, &length)));
    EACH(getsockname(fd, (void *)&address, BAD));
    EACH((length = sizeof address, getpeername(fd, (void *)&address, &length)));
    EACH((length = sizeof value, getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length)) ?: value);
    EACH((length = -1, getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length)));
    EACH((length = sizeof value, getsockopt(fd, 77, 1, &value, &length)));
    EACH(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, 4));
    EACH(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, BAD, 4));
    EACH(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, -1));
    EACH(setsockopt(fd, 77, 1, &(int){1}, 4));
    EACH(send(fd, buffer, 8, MSG_NOSIGNAL));
    EACH(send(fd, buffer, 0, MSG_NOSIGNAL));
    EACH(send(fd, KERNEL_ADDRESS, 8, MSG_NOSIGNAL));
    EACH(sendto(fd, buffer, 8, MSG_NOSIGNAL, (void *)&missing, sizeof missing));
    EACH(sendto(fd, buffer, 8, MSG_NOSIGNAL, BAD, sizeof missing));
    EACH(sendto(fd, buffer, 8, MSG_NOSIGNAL, (void *)&missing, 1000));
    EACH(recv(fd, buffer, 8, MSG_DONTWAIT));
    EACH(recv(fd, buffer, 0, MSG_DONTWAIT));
    EACH(recv(fd, KERNEL_ADDRESS, 8, MSG_DONTWAIT));
    EACH(sendmsg(fd, &message, MSG_NOSIGNAL));
    EACH(sendmsg(fd, BAD, MSG_NOSIGNAL));
    EACH(recvmsg(fd, &message, MSG_DONTWAIT));
    EACH(recvmsg(fd, BAD, MSG_DONTWAIT));
    EACH(sendmmsg(fd, messages, 1, MSG_NOSIGNAL));
    EACH(sendmmsg(fd, messages, 0, MSG_NOSIGNAL));
    EACH(recvmmsg(fd, messages, 1, MSG_DONTWAIT, NULL));
    EACH(recvmmsg(fd, messages, 0, MSG_DONTWAIT, NULL));
    EACH(recvmmsg(fd, messages, 1, MSG_DONTWAIT, &(struct timespec){0, -1}));
    PART("dup");
    EACH(dup3(fd, 800, 0));
    EACH(dup3(fd, fd, 0));
    EACH(dup3(fd, 800, 1));
    EACH(dup3(fd, -1, 0));
    EACH_OK(dup2(fd, fd));
    EACH(dup2(fd, -1));
    EACH_OK(dup(fd));
    EACH(close_range(fd, fd, 8));
    return 0;
}
