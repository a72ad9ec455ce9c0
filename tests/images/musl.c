// A program of musl's C library: threads, numbers, names, files, locales, other processes.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <locale.h>
#include <math.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static __thread int own;

static void *add(void *number)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		sum += (long)number;
		pthread_mutex_unlock(&lock);
		own++;
	}
	return (void *)(long)own;
}

static volatile sig_atomic_t got;

static void handler(int number)
{
	got = number;
}

int main(int argc, char **argv)
{
	printf("%s %d %s\n", argv[0], argc, getenv("GREETING"));
	pthread_t threads[8];
	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], 0, add, (void *)i);
	long calls = 0;
	for (int i = 0; i < 8; i++) {
		void *result;
		pthread_join(threads[i], &result);
		calls += (long)result;
	}
	printf("%ld %ld %d\n", sum, calls, own);
	printf("%.17g %a %Lf %e\n", sqrt(2), 0.1, 1.0L / 3, 1e300 * 10);
	struct sigaction action = {.sa_handler = handler};
	sigaction(SIGUSR1, &action, 0);
	pthread_kill(pthread_self(), SIGUSR1);
	printf("%d\n", got == SIGUSR1);
	struct passwd *user = getpwuid(getuid());
	printf("%s %s\n", user ? user->pw_name : "none", user ? user->pw_dir : "none");
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	int error = getaddrinfo("localhost", "80", &hints, &found);
	printf("%s\n", error ? gai_strerror(error) : "localhost is known");
	regex_t pattern;
	printf("%d\n", regcomp(&pattern, "^a(b|c)+d$", REG_EXTENDED) || regexec(&pattern, "abcbd", 0, 0, 0));
	char text[] = "\xe4\xf6", utf8[16] = "", *in = text, *out = utf8;
	size_t left = 2, room = sizeof utf8;
	iconv(iconv_open("UTF-8", "ISO-8859-1"), &in, &left, &out, &room);
	setlocale(LC_ALL, "C.UTF-8");
	printf("%s %zu\n", utf8, mbstowcs(0, utf8, 0));
	int file = open("/tmp/file", O_CREAT | O_RDWR | O_TRUNC, 0600);
	ftruncate(file, 8192);
	char *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	strcpy(map + 4096, "mapped");
	char back[7] = "";
	pread(file, back, 6, 4096);
	struct stat about;
	fstat(file, &about);
	printf("%s %lld %o\n", back, (long long)about.st_size, about.st_mode);
	time_t moment = 86400 * 365;
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	printf("%s", ctime(&moment));
	fflush(stdout);
	if (!fork()) {
		execl("/bin/busybox", "busybox", "echo", "a child", (char *)0);
		_exit(1);
	}
	int status;
	wait(&status);
	FILE *pipe = popen("echo piped; exit 3", "r");
	char line[32];
	printf("%d %s", status, fgets(line, sizeof line, pipe));
	printf("%d\n", WEXITSTATUS(pclose(pipe)));
	int none = open("/none", O_RDONLY);
	printf("%d %s\n", none, strerror(errno));
	printf("%s\n", dlsym(dlopen(0, RTLD_NOW), "printf") ? "dynamic" : "static");
	return 7;
}
