package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// proxiesText writes the list of proxies, and of the NIs that have none, to b. It writes nothing if no net is served
// by proxies.
func proxiesText(b *strings.Builder, all *api.Clients) {
	if all.ProxySocket == "" {
		return
	}
	b.WriteByte('\n')
	lines := table{{"proxy", "nid", "pid", "uid", "link", "lnet pids", "sent", "failed", "received", "in progress", "rule", "since"}}
	for k := range all.Proxies {
		p := &all.Proxies[k]
		link := "down"
		if p.Up {
			link = "up"
		}
		lines = append(lines, []string{
			p.Name, p.NID.String(), strconv.Itoa(int(p.PID)), strconv.FormatUint(uint64(p.UID), 10), link, lnetPIDs(p),
			strconv.FormatUint(p.Sent, 10), strconv.FormatUint(p.Failed, 10), strconv.FormatUint(p.Received, 10),
			strconv.Itoa(p.Sends + p.Waiting + p.Arrivals), orDash(p.Rule), p.Since.Local().Format(time.DateTime),
		})
	}
	lines.write(b, "")
	for _, u := range all.Unserved {
		fmt.Fprintf(b, "%s is down: %s\n", u.NI, u.Reason)
	}
}

// lnetPIDs returns the first PIDs that a proxy serves, and the number of the others.
func lnetPIDs(p *api.ProxyInfo) string {
	const most = 3
	var list []string
	for _, pid := range p.LNetPIDs[:min(most, len(p.LNetPIDs))] {
		list = append(list, strconv.FormatUint(uint64(pid), 10))
	}
	if n := len(p.LNetPIDs) - most; n > 0 {
		list = append(list, fmt.Sprintf("+%d", n))
	}
	return orDash(strings.Join(list, ","))
}
