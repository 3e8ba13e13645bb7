package lnet

import "strings"

// SplitNIDs splits a text as mount commands have it, "nid,nid:nid", into groups
// of NIDs: commas and blanks stand between the NIDs of one node, colons between
// nodes (lnet-wire 3.4). The NIDs are texts that nobody has looked at yet.
// Empty NIDs and groups are left out.
func SplitNIDs(s string) [][]string {
	var groups [][]string
	var group []string
	for s != "" {
		n := nidLen(s)
		if n > 0 {
			group = append(group, s[:n])
		}
		if n == len(s) {
			break
		}
		if s[n] == ':' && len(group) > 0 {
			groups = append(groups, group)
			group = nil
		}
		s = s[n+1:]
	}
	if len(group) > 0 {
		groups = append(groups, group)
	}
	return groups
}

// nidLen is the length of the NID at the start of s. It ends before a comma, a
// blank or a colon, but a colon may also belong to an IPv6 address: it does as
// long as there was no '@' and everything so far could be one, hexadecimal
// digits in runs of at most 4 with colons between.
func nidLen(s string) int {
	ipv6, run := true, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == ',' || c == ' ':
			return i
		case c == ':' && !ipv6:
			return i
		case c == ':':
			run = 0
		case !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)):
			ipv6 = false
		default:
			run++
			ipv6 = ipv6 && run <= 4
		}
	}
	return len(s)
}
