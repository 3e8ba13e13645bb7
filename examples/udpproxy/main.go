// Command udpproxy is the driver of an NI in a separate process: LNet over UDP datagrams.
//
//	udpproxy -socket /run/lnetd/proxies.sock -address 10.0.0.1
//
// It attaches to the server of proxies at the socket (package lnd/uplnd), and carries the messages of the NI
// with this address. The driver is that of examples/udplnd. Any other driver works as well: replace two lines.
// If it is detached, or there is no such NI yet, it tries again every second. It ends with SIGINT or SIGTERM.
//
// To begin a new program with it, copy this file and create a module:
//
//	go mod init example.com/udpproxy
//	go get github.com/lnetd/lnetd
package main

import (
	"context"
	"flag"
	"log"
	"net/netip"
	"os/signal"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/proxy"
	"github.com/lnetd/lnetd/lnet"
)

func main() {
	socket := flag.String("socket", "/run/lnetd/proxies.sock", "socket of the server of proxies")
	address := flag.String("address", "127.0.0.1", "IPv4 address of the NI, to which datagrams are sent")
	port := flag.Int("port", 9990, "UDP port of all nodes")
	flag.Parse()
	ip, err := netip.ParseAddr(*address)
	if err != nil || !ip.Is4() {
		log.Fatalf("address %q: not an IPv4 address", *address)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	net := lnet.MakeNet(udplnd.Type, 0)
	for ctx.Err() == nil {
		err := proxy.Run(ctx, proxy.Config{
			Socket: *socket,
			Name:   "udpproxy",
			Net:    net,
			NID:    lnet.NIDFromIP(net, ip),
			Driver: &udplnd.Driver{Port: *port, Listen: udplnd.UDP},
		})
		if err != nil {
			log.Print(err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}
