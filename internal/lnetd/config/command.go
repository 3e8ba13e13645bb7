package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// Commands returns the lnetdctl commands that make the change, quoted for a shell. A change that
// no command can make is a shell comment, such as "# avoid_asym_router_failure changes".
func (c Change[T]) Commands() []string {
	from, to := any(c.From), any(c.To)
	switch any(c.From).(type) {
	case *NI:
		return niCommands(from.(*NI), to.(*NI))
	case *Order:
		return []string{to.(*Order).comment()}
	case *Peer:
		return peerCommands(from.(*Peer), to.(*Peer))
	case *Route:
		return routeCommands(from.(*Route), to.(*Route))
	case *Policies:
		return policyCommands(from.(*Policies), to.(*Policies))
	case *Parameters:
		return parameterCommands(from.(*Parameters), to.(*Parameters))
	case *node.Buffers:
		return bufferCommands(from.(*node.Buffers), to.(*node.Buffers))
	}
	if *to.(*Routing) == RoutingOff {
		return []string{"set routing 0"}
	}
	return []string{"set routing 1"}
}

// comment returns a shell comment that describes the order, because no command changes the order of
// NIs.
func (o Order) comment() string {
	names := make([]string, len(o))
	for k := range o {
		names[k] = o[k].String()
	}
	return "# the order of NIs becomes " + strings.Join(names, ", ") + ": peers see the NID of the first as the primary NID"
}

// Commands returns a shell comment, because no command changes options of drivers.
func (c DriverChange) Commands() []string { return []string{"# " + c.String()} }

// command joins words with blanks to a command line. It quotes words that a shell would change.
func command(words ...string) string {
	for k, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("@%+=:,./-_", r) && (r > 'z' || !isWord(r))
		}) {
			words[k] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

func isWord(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func niCommands(from, to *NI) []string {
	switch {
	case to == nil:
		return []string{command(append([]string{"net", "del"}, from.identityArgs()...)...)}
	case from == nil && to.Device == "" && to.NID.IsZero() && to.Own.IsZero() && to.Proxy == "":
		return []string{"# add an NI on " + to.Net.String() + " on the first interface that is up; no command can do this"}
	case from == nil:
		list := []string{command(append(append([]string{"net", "add"}, to.identityArgs()...), to.optionArgs()...)...)}
		if v, ok := to.Options[timeoutOption]; ok {
			list = append(list, timeoutCommand(to.Net, v))
		}
		return list
	case from.Own.IsZero(): // the NI waits for its interface and has no NID, by which "net set" could name it
		return append(niCommands(from, nil), niCommands(nil, to)...)
	}
	var list []string
	words := []string{"net", "set", "--nid", from.Own.String()}
	for _, name := range slices.Sorted(maps.Keys(to.Options)) {
		v := to.Options[name]
		if before, ok := from.Options[name]; ok && before == v {
			continue
		}
		if name == timeoutOption {
			list = append(list, timeoutCommand(to.Net, v))
		} else {
			words = append(words, optionWords(name, v)...)
		}
	}
	if len(words) > 4 {
		list = append([]string{command(words...)}, list...)
	}
	return list
}

func timeoutCommand(n lnet.Net, seconds int64) string {
	return command("net", "set", "--net", n.String(), "--lnd-timeout", strconv.FormatInt(seconds, 10))
}

// optionWords returns the words of the command-line option that sets an LND tunable to v.
func optionWords(name string, v int64) []string {
	t := lnd.Tunable{Name: name}
	return []string{"--" + t.Option(), strconv.FormatInt(v, 10)}
}

// identityArgs returns the words of the command-line options that identify the NI.
func (n *NI) identityArgs() []string {
	switch {
	case !n.NID.IsZero():
		return []string{"--nid", n.NID.String()}
	case n.Device != "":
		return []string{"--net", n.Net.String(), "--if", n.Device}
	case !n.Own.IsZero():
		return []string{"--nid", n.Own.String()}
	}
	return []string{"--net", n.Net.String()}
}

// optionArgs returns the words of the command-line options for those settings of the NI that differ
// from the driver's defaults. It omits the LND timeout, for which there is a separate command.
func (n *NI) optionArgs() (words []string) {
	t := &n.Tunables
	if t.PeerTimeout >= 0 { // a negative value means the driver's default
		words = append(words, "--peer-timeout", strconv.Itoa(int(t.PeerTimeout/time.Second)))
	}
	for _, c := range []struct {
		option string
		value  int
	}{{"--peer-credits", t.PeerCredits}, {"--peer-buffer-credits", t.PeerBufferCredits}, {"--credits", t.Credits}} {
		if c.value > 0 { // 0 means the driver's default
			words = append(words, c.option, strconv.Itoa(c.value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Options)) {
		if name != timeoutOption { // Options has only the tunables that are set for this NI
			words = append(words, optionWords(name, n.Options[name])...)
		}
	}
	if n.Proxy != "" {
		words = append(words, "--proxy", n.Proxy)
	}
	if n.CPTs != nil { // nil means all partitions
		list := make([]string, len(n.CPTs))
		for k, cpt := range n.CPTs {
			list[k] = strconv.Itoa(cpt)
		}
		words = append(words, "--cpt", "["+strings.Join(list, ",")+"]")
	}
	return words
}

func peerCommands(from, to *Peer) (list []string) {
	switch {
	case to == nil:
		words := []string{"peer", "del", "--prim_nid", from.Primary.String()}
		if from.Locked {
			words = append(words, "--force")
		}
		return []string{command(words...)}
	case from != nil:
		if gone := nidsWithout(from.Others, to.Others); len(gone) > 0 {
			list = append(list, command("peer", "del", "--prim_nid", to.Primary.String(), "--nid", joinNIDs(gone)))
		}
		more := nidsWithout(to.Others, from.Others)
		if len(more) == 0 {
			return list
		}
		return append(list, peerAddition(to, more))
	}
	return []string{peerAddition(to, to.Others)}
}

func peerAddition(p *Peer, nids []lnet.NID) string {
	words := []string{"peer", "add", "--prim_nid", p.Primary.String()}
	if len(nids) > 0 {
		words = append(words, "--nid", joinNIDs(nids))
	}
	if p.SingleRail {
		words = append(words, "--non_mr")
	}
	if p.Locked {
		words = append(words, "--lock_prim")
	}
	return command(words...)
}

func joinNIDs(nids []lnet.NID) string {
	list := make([]string, len(nids))
	for k, n := range nids {
		list[k] = n.String()
	}
	return strings.Join(list, ",")
}

func nidsWithout(a, b []lnet.NID) []lnet.NID {
	return slices.DeleteFunc(slices.Clone(a), func(n lnet.NID) bool { return slices.Contains(b, n) })
}

func routeCommands(from, to *Route) []string {
	if to == nil {
		return []string{command("route", "del", "--net", from.Net.String(), "--gateway", from.Gateway.String())}
	}
	words := []string{"route", "add", "--net", to.Net.String(), "--gateway", to.Gateway.String()}
	if to.Hops > 0 {
		words = append(words, "--hop", strconv.Itoa(int(to.Hops)))
	}
	if to.Priority > 0 {
		words = append(words, "--priority", strconv.Itoa(int(to.Priority)))
	}
	return []string{command(words...)}
}

// policyCommands returns the commands that change the policies. If the new list of "udsp" rules begins
// with the old one, the commands add only the further rules. Otherwise they delete all "udsp" rules and
// add the new ones.
func policyCommands(from, to *Policies) (list []string) {
	rules := to.Rules
	if n := len(from.Rules); n <= len(rules) && reflect.DeepEqual(from.Rules, rules[:n]) {
		rules = rules[n:]
	} else {
		list = append(list, "udsp del --all")
	}
	for _, r := range rules {
		words := []string{"udsp", "add"}
		for _, p := range []struct {
			option  string
			pattern lnet.Pattern
		}{{"--src", r.Src}, {"--dst", r.Dst}, {"--rte", r.Rte}} {
			if !p.pattern.IsZero() {
				words = append(words, p.option, p.pattern.String())
			}
		}
		if r.HasPriority() {
			words = append(words, "--priority", strconv.FormatUint(uint64(r.Priority), 10))
		}
		list = append(list, command(words...))
	}
	return append(list, typedCommands(from.TypedRules, to.TypedRules)...)
}

func typedCommands(from, to []selection.TypedRule) (list []string) {
	has := func(list []selection.TypedRule, r selection.TypedRule) bool {
		return slices.ContainsFunc(list, func(o selection.TypedRule) bool { return reflect.DeepEqual(o, r) })
	}
	for _, r := range from {
		if !has(to, r) {
			list = append(list, command("selection", r.Type.String(), "del", "--id", strconv.Itoa(r.ID)))
		}
	}
	for _, r := range to {
		if has(from, r) {
			continue
		}
		words := []string{"selection", r.Type.String(), "add"}
		if r.Type == selection.RulePeer {
			words = append(words, "--local", r.Local.String(), "--remote", r.Remote.String())
		} else {
			words = append(words, "--"+r.Type.String(), r.Pattern.String())
		}
		words = append(words, "--priority", strconv.FormatUint(uint64(r.Priority), 10), "--id", strconv.Itoa(r.ID))
		list = append(list, command(words...))
	}
	return list
}

// parameterCommands returns a "set" command for each parameter that differs. Parameters that limit each
// other are set in an order in which the values are valid after every command.
func parameterCommands(from, to *Parameters) (list []string) {
	var first, last []string
	others := false
	for k := range parameterTable {
		p := &parameterTable[k]
		before, after := p.get(from), p.get(to)
		word := strconv.FormatInt(after, 10)
		if p.Name == discoveryName { // the mode Verify has no number
			before, after = int64(from.Discovery), int64(to.Discovery)
			word = discoveryWord(from.Discovery, to.Discovery)
		}
		switch set := command("set", p.Name, word); {
		case before == after || !p.Live:
		case p.Section != parameters.Global:
			others = true
		case p.Bounded && after < before:
			first = append(first, set)
		case p.Bounded:
			last = append(last, set)
		default:
			list = append(list, set)
		}
	}
	list = slices.Concat(first, list, last)
	if others {
		list = append(list, "# change parameters of the section \"lnetd\"; no command can do this")
	}
	return list
}

// discoveryWord returns the argument of "set discovery" that changes the mode from one to the other. It
// is not always a number: with the argument 1, a node in mode Verify stays in that mode.
func discoveryWord(from, to discovery.Mode) string {
	switch {
	case to == discovery.Off:
		return "0"
	case from == discovery.Off && to == discovery.On:
		return "1"
	}
	return to.String()
}

func bufferCommands(from, to *node.Buffers) (list []string) {
	for _, b := range []struct {
		name     string
		from, to int
	}{{"tiny", from.Tiny, to.Tiny}, {"small", from.Small, to.Small}, {"large", from.Large, to.Large}} {
		if b.from != b.to {
			list = append(list, fmt.Sprintf("set %s_buffers %d", b.name, b.to))
		}
	}
	return list
}
