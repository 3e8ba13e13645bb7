// get fetches a file from files.c, and writes it to the standard output. It shows the library in C++.
//
//	c++ -std=c++17 get.cc -o get $(pkg-config --cflags --libs lnetd)
//	get NAME SERVER [SOCKET]        such as motd 10.0.0.1@tcp:12345:34:7

#include <cerrno>
#include <cstring>
#include <exception>
#include <iostream>
#include <lnetd.h>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

constexpr size_t largest = 1 << 20, longest = 512;
constexpr int patience = 30000; // ms

int check(int result)
{
	if (result < 0)
		throw std::runtime_error(lnetd_text());
	return result;
}

// Connection closes its lnetd, which frees all that belongs to it.
using Connection = std::unique_ptr<lnetd, decltype(&lnetd_close)>;

Connection connect(const char *socket)
{
	lnetd *d;
	check(lnetd_open(&d, socket, "get", 0));
	return {d, lnetd_close};
}

lnetd_buf *buffer(lnetd *d, size_t size)
{
	iovec range{nullptr, size};
	lnetd_buf *b;
	check(lnetd_alloc(d, size, &range.iov_base));
	check(lnetd_register(d, &range, 1, nullptr, &b));
	return b;
}

lnetd_event next(lnetd_tm *tm)
{
	lnetd_event e;
	while (check(lnetd_events(tm, &e, 1)) == 0)
		if (check(lnetd_wait(tm, patience)) == 0)
			throw std::runtime_error("the server does not answer");
	return e;
}

void get(const std::string &name, const char *server, const char *socket)
{
	lnetd_addr peer, me{};
	check(lnetd_addr_parse(server, &peer));
	Connection d = connect(socket);
	check(lnetd_nids(d.get(), &me.nid, 1));
	me.pid = LNETD_PID;
	me.portal = 34;
	me.tmid = LNETD_ANY_TM;
	lnetd_tm *tm;
	check(lnetd_tm_start(d.get(), &me, 0, &tm));
	lnetd_buf *file = buffer(d.get(), largest), *request = buffer(d.get(), longest), *answer = buffer(d.get(), longest);

	lnetd_desc descriptor;
	check(lnetd_recv(tm, answer, longest, 1));
	check(lnetd_offer(tm, file, LNETD_IN, 0, &descriptor));
	auto text = std::string(reinterpret_cast<char *>(descriptor.bytes), descriptor.size) + name;
	if (text.size() > longest)
		throw std::runtime_error("the name is too long");
	std::memcpy(lnetd_at(request, 0, nullptr), text.data(), text.size());
	check(lnetd_send(tm, request, static_cast<uint32_t>(text.size()), &peer));

	// The answer may come before the file. Only the final event of the buffer says that the file is complete.
	uint32_t length = 0;
	for (bool answered = false, filled = false; !answered || !filled;) {
		lnetd_event e = next(tm);
		if (e.status < 0)
			throw std::runtime_error(lnetd_strerror(e.status));
		if (e.type == LNETD_PASSIVE_IN) {
			filled = true;
			length = e.length;
		}
		if (e.flags & LNETD_MESSAGE) {
			answered = true;
			std::string words(static_cast<char *>(lnetd_at(answer, e.offset, nullptr)), e.length);
			if (words != "ok")
				throw std::runtime_error(words);
		}
	}
	std::cout.write(static_cast<char *>(lnetd_at(file, 0, nullptr)), length);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 3) {
		std::cerr << "usage: get NAME SERVER [SOCKET]\n";
		return 2;
	}
	try {
		get(argv[1], argv[2], argc > 3 ? argv[3] : nullptr);
	} catch (const std::exception &e) {
		std::cerr << "get: " << e.what() << '\n';
		return 1;
	}
	return 0;
}
