package config

import (
	"fmt"
	"math"
	"os/user"
	"strconv"
	"strings"
)

// This file reads what the rules for clients (transport.go) and for proxies (proxies.go) have in common.

const (
	maxRules    = 64 // each rule for clients has its own metrics
	maxRuleName = 63
)

// groupSetting returns the setting of a key whose value is the group of a socket. The function set stores the
// group's ID. An empty value changes nothing.
func groupSetting[T any](set func(*T, int)) setting[T] {
	return setting[T]{scalar{Text{"a group's name or number", "lnet"}}, func(t *T, at place) {
		if s, ok := at.text(); !ok || s == "" {
			return
		}
		if id, ok := at.id("group", groupID); ok {
			set(t, int(id))
		}
	}}
}

// readRules reads a list of rules, whose items have the given keys. The function name returns the name of a
// rule, which must be unique.
func readRules[R any](at place, keys map[string]setting[R], name func(*R) string) (rules []R) {
	items := at.optionalItems()
	if len(items) > maxRules {
		at.problemf("%d rules, but at most %d are allowed", len(items), maxRules)
		return nil
	}
	names := map[string]bool{}
	for _, item := range items {
		var r R
		for _, m := range item.members(false) {
			if key, ok := keys[m.key]; ok {
				key.read(&r, m.value)
			}
		}
		switch n := name(&r); {
		case n == "":
			if _, given := item.optionalMember("name"); !given {
				item.missing("name", Text{"a word", "servers"})
			}
		case names[n]:
			item.problemf("the rule %q already exists", n).remedyf("give each rule a different name")
		}
		names[name(&r)] = true
		rules = append(rules, r)
	}
	return rules
}

// Forms of "users" and "groups" in a rule.
var (
	userList  = list{scalar{Text{"a user's name or number", "root"}}}
	groupList = list{scalar{Text{"a group's name or number", "lnet"}}}
)

// ruleName returns the setting of the name of a rule, which set stores.
func ruleName[R any](set func(*R, string)) setting[R] {
	return texts(Text{"a word", "servers"}, func(r *R, s string) error {
		if s == "" || len(s) > maxRuleName || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return fmt.Errorf("%q is not a word of 1 to %d letters", s, maxRuleName)
		}
		set(r, s)
		return nil
	})
}

// getent holds the database in which the command getent finds each kind of name.
var getent = map[string]string{"user": "passwd", "group": "group"}

// ids returns the IDs of the users or groups in a list of names and numbers. It reports the items that
// are invalid and leaves them out.
func (p place) ids(kind string, find func(name string) (string, error)) (ids []uint32) {
	for _, item := range p.items() {
		if id, ok := item.id(kind, find); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// id returns the value as the ID of a user or group. It is a number, or a name that find knows on this
// host. It returns false if it has reported a problem.
func (p place) id(kind string, find func(name string) (string, error)) (uint32, bool) {
	s, ok := p.text()
	if !ok {
		return 0, false
	}
	// The largest number is not an ID: the kernel uses it for "no user" and "no group".
	if n, err := strconv.ParseUint(s, 10, 32); err == nil && n < math.MaxUint32 {
		return uint32(n), true
	}
	text, err := find(s)
	if err != nil {
		p.problemf("%q is neither a %s of this host nor a number", s, kind).remedyf("write a name that 'getent %s' shows, or a number", getent[kind])
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		p.problemf("%s %q: %v", kind, s, err)
	}
	return uint32(n), err == nil
}

func userID(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func groupID(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}
