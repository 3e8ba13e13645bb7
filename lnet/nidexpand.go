package lnet

import (
	"errors"
	"strings"
)

// ErrAsterisk means that a list of NIDs contains "*", which stands for no particular NIDs.
var ErrAsterisk = errors.New("asterisk not allowed in nidstring")

// ExpandNIDs returns the NIDs of a text such as
//
//	10.10.10.[1-3]@tcp,[6-12/4]@gni
//
// The text is a list of NIDs separated by commas, with groups in their addresses or net
// numbers (lnetctl 12.2):
//
//	list  = nid { "," nid }
//	group = "[" item { "," item } "]"      anywhere in a nid, any number of them
//	item  = number | lo "-" hi | lo "-" hi "/" stride
//
// Numbers are decimal, or hexadecimal in an IPv6 address. A NID without a net is on tcp.
// The result is in the order of the text and may contain duplicates. ExpandNIDs returns
// ErrTooMany if the text stands for more than limit NIDs. The NIDs of each item are
// counted before memory for them is allocated. Host names are not resolved.
func ExpandNIDs(s string, limit int) ([]NID, error) {
	nids, err := expandNIDs(s, limit)
	if err != nil {
		return nil, &FieldError{What: "NIDs", Value: s, Err: err}
	}
	return nids, nil
}

// ExpandNets returns the nets of a text such as "tcp[8-9]". Groups in brackets are defined
// at RouteEntry. It returns ErrTooMany if the text stands for more than limit nets.
func ExpandNets(s string, limit int) (nets []Net, err error) {
	err = expandBrackets(strings.Trim(s, blanks), limit, textGroup, func(text string) error {
		n, err := ParseNet(text)
		nets = append(nets, n)
		return err
	})
	if err != nil {
		return nil, &FieldError{What: "net", Value: s, Err: err}
	}
	return nets, nil
}

func expandNIDs(s string, limit int) ([]NID, error) {
	var nids []NID
	for item, rest, more := cutListItem(s); ; item, rest, more = cutListItem(rest) {
		item = strings.Trim(item, blanks)
		switch {
		case item == "":
			return nil, errEmptyElement
		case strings.Contains(item, "*"):
			return nil, ErrAsterisk
		}
		err := expandBrackets(item, limit-len(nids), nidGroups(item), func(text string) error {
			n, err := ParseNID(text)
			nids = append(nids, n)
			return err
		})
		if err != nil {
			return nil, err
		}
		if !more {
			return nids, nil
		}
	}
}

// cutListItem splits s at the first comma outside of brackets. more reports whether such a
// comma exists.
func cutListItem(s string) (item, rest string, more bool) {
	open := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			open = true
		case ']':
			open = false
		case ',':
			if !open {
				return s[:i], s[i+1:], true
			}
		}
	}
	return s, "", false
}

// nidGroups returns the groupParser for item, a NID with groups. In an IPv6 address, that
// is, one with a colon, the numbers in groups are hexadecimal.
func nidGroups(item string) groupParser {
	address, _, _ := strings.Cut(item, "@")
	ipv6 := strings.Contains(address, ":")
	return func(before, group string, limit int) (alternatives, error) {
		base := 10
		if ipv6 && !strings.Contains(before, "@") {
			base = 16
		}
		return numberGroup(group, base, limit)
	}
}

func numberGroup(group string, base, limit int) (alternatives, error) {
	var all alternatives
	for item := range strings.SplitSeq(group, ",") {
		p, err := parseProgression(strings.Trim(item, blanks), base)
		if err != nil {
			return nil, err
		}
		a, err := p.format(base, limit-len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, a...)
	}
	return all, nil
}
