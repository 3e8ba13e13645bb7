package modparam

import (
	"fmt"
	"strconv"
	"strings"
)

// document returns the nets, rules and routes in c as a YAML document (lnetctl 9, 10).
func (c *conversion) document() []byte {
	var b []byte
	put := func(format string, args ...any) { b = fmt.Appendf(b, format, args...) }
	list := func(indent, key string, values []string) {
		put("%s%s:\n", indent, key)
		for k, v := range values {
			put("%s    %d: %s\n", indent, k, scalar(v))
		}
	}
	if len(c.nets) > 0 {
		put("net:\n")
	}
	for _, n := range c.nets {
		put("    - net type: %s\n", scalar(n.net))
		if len(n.interfaces) > 0 {
			put("      local NI(s):\n        - interfaces:\n")
			for k, name := range n.interfaces {
				put("              %d: %s\n", k, scalar(name))
			}
		}
		if n.cpts != "" {
			put("      CPT: %s\n", strconv.Quote(n.cpts))
		}
	}
	if len(c.rules) > 0 {
		put("ip2nets:\n")
	}
	for _, r := range c.rules {
		put("    - net-spec: %s\n", scalar(r.net))
		if len(r.interfaces) > 0 {
			list("      ", "interfaces", r.interfaces)
		}
		list("      ", "ip-range", r.patterns)
		if r.cpts != "" {
			put("      CPT: %s\n", strconv.Quote(r.cpts))
		}
	}
	if len(c.routes) > 0 {
		put("route:\n")
	}
	for _, r := range c.routes {
		put("    - net: %s\n      gateway: %s\n", scalar(r.net), scalar(r.gateway))
		if r.hops > 0 {
			put("      hop: %d\n", r.hops)
		}
		if r.priority >= 0 {
			put("      priority: %d\n", r.priority)
		}
	}
	return b
}

// scalar returns a text in the form of a YAML string. It uses quotes if YAML could take the text for
// something other than a string.
func scalar(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if s == "" || !strings.Contains(plain, s[:1]) || strings.Trim(s, plain+"_.:@/-,*[]") != "" || s[len(s)-1] == ':' {
		return strconv.Quote(s)
	}
	return s
}
