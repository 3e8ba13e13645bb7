package pages

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a step does.
type Kind int

// Kinds of steps.
const (
	Hosts    Kind = iota // create network namespaces
	Machines             // create machines
	Run                  // run the commands of a block
	Given                // run commands that the page does not show
	File                 // write a file
	Prints               // compare the output of the last commands
	NotRun               // a block that no test runs
)

// Step is a part of a page that its test carries out.
type Step struct {
	Kind   Kind
	Line   int      // of the marker
	On     []string // names of the hosts; "" is this host
	Hosts  []Host   // of Hosts and Machines
	Status int      // expected exit status of the last command
	Except []string // programs of Run whose commands are not run
	Path   string   // of File
	Text   string   // commands, the content of a file, or the output
	Reason string   // of NotRun
}

// Host is a host of a page.
type Host struct {
	Name       string
	Interfaces []Interface
}

// Interface is an interface of a host. Interfaces whose addresses have the same first 24 bits are on one network.
type Interface struct {
	Device  string
	Address netip.Addr
}

// block is a block of a page.
type block struct {
	line     int // of the first line of the text
	language string
	text     string
}

// commands reports whether the block has commands.
func (b *block) commands() bool {
	switch b.language {
	case "indented", "sh", "":
		return true
	}
	return false
}

// Parse returns the steps of a page. Its error names every block of commands without a marker, every marker
// without a block, and every invalid marker, with their lines.
func Parse(text string) (steps []Step, err error) {
	s := scanner{lines: strings.Split(text, "\n")}
	var bad []error
	fail := func(line int, format string, args ...any) {
		bad = append(bad, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...))
	}
	var pending *Step // waits for its block
	for {
		marker, line, b, ok := s.next()
		if !ok {
			break
		}
		if b != nil {
			switch {
			case pending != nil:
				pending.Text = b.text
				steps = append(steps, *pending)
				pending = nil
			case b.commands():
				fail(b.line, "commands without a marker")
			}
			continue
		}
		step, err := parseMarker(marker)
		if err != nil {
			fail(line, "%v", err)
			continue
		}
		if step == nil {
			continue // a comment
		}
		if pending != nil {
			fail(pending.Line, "no block follows the marker")
			pending = nil
		}
		step.Line = line
		switch step.Kind {
		case Hosts, Machines, Given:
			steps = append(steps, *step)
		case Run, File, Prints, NotRun:
			pending = step
		}
	}
	if pending != nil {
		fail(pending.Line, "no block follows the marker")
	}
	return steps, errors.Join(bad...)
}

var (
	machinesForm = regexp.MustCompile(`(?s)^(hosts|machines): *(.+)$`)
	runForm      = regexp.MustCompile(`^run(?: ([a-z ]+))?(?:, status (\d+))?(?:, except ([a-z ]+))?$`)
	givenForm    = regexp.MustCompile(`(?s)^given(?: ([a-z ]+))?:\s*(.+)$`)
	fileForm     = regexp.MustCompile(`^file(?: ([a-z ]+))?: *(\S+)$`)
	notRunForm   = regexp.MustCompile(`(?s)^not run: *(.+)$`)
	markerForm   = regexp.MustCompile(`^(hosts|machines|run|given|file|prints|not run)\b`)
)

// parseMarker returns the step of a comment, or nil if the comment is not a marker.
func parseMarker(comment string) (*Step, error) {
	if m := machinesForm.FindStringSubmatch(comment); m != nil {
		hosts, err := parseHosts(m[2])
		kind := Hosts
		if m[1] == "machines" {
			kind = Machines
		}
		return &Step{Kind: kind, Hosts: hosts}, err
	}
	if m := runForm.FindStringSubmatch(comment); m != nil {
		status := 0
		if m[2] != "" {
			status, _ = strconv.Atoi(m[2]) // always succeeds
		}
		return &Step{Kind: Run, On: hostsOf(m[1]), Status: status, Except: strings.Fields(m[3])}, nil
	}
	if m := givenForm.FindStringSubmatch(comment); m != nil {
		return &Step{Kind: Given, On: hostsOf(m[1]), Text: m[2] + "\n"}, nil
	}
	if m := fileForm.FindStringSubmatch(comment); m != nil {
		return &Step{Kind: File, On: hostsOf(m[1]), Path: m[2]}, nil
	}
	if m := notRunForm.FindStringSubmatch(comment); m != nil {
		return &Step{Kind: NotRun, Reason: m[1]}, nil
	}
	if comment == "prints" {
		return &Step{Kind: Prints}, nil
	}
	if markerForm.MatchString(comment) {
		return nil, fmt.Errorf("invalid marker %q", comment)
	}
	return nil, nil
}

// hostsOf returns the names of hosts in a marker.
func hostsOf(text string) []string {
	if text == "" {
		return []string{""}
	}
	return strings.Fields(text)
}

// parseHosts parses "a eth0=10.0.0.1 eth1=10.0.1.1, b eth0=10.0.0.2".
func parseHosts(text string) (hosts []Host, err error) {
	for one := range strings.SplitSeq(text, ",") {
		words := strings.Fields(one)
		if len(words) < 2 {
			return nil, fmt.Errorf("host %q has no interface", strings.TrimSpace(one))
		}
		h := Host{Name: words[0]}
		for _, word := range words[1:] {
			device, address, _ := strings.Cut(word, "=")
			a, err := netip.ParseAddr(address)
			if err != nil || !a.Is4() {
				return nil, fmt.Errorf("host %s: %q is not DEVICE=IPV4-ADDRESS", h.Name, word)
			}
			h.Interfaces = append(h.Interfaces, Interface{device, a})
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// scanner finds comments and blocks in a page.
type scanner struct {
	lines []string
	at    int
}

// next returns the next comment, or the next block, and its line. ok is false at the end.
func (s *scanner) next() (comment string, line int, b *block, ok bool) {
	for s.at < len(s.lines) {
		first := s.at
		text := s.lines[first]
		switch {
		case strings.HasPrefix(text, "```"):
			return "", first + 1, s.fenced(), true
		case strings.HasPrefix(text, "<!--"):
			return s.comment(), first + 1, nil, true
		case strings.HasPrefix(text, "    ") && (first == 0 || s.lines[first-1] == ""):
			return "", first + 1, s.indented(), true
		}
		s.at++
	}
	return "", 0, nil, false
}

func (s *scanner) comment() string {
	var text []string
	for s.at < len(s.lines) {
		line := s.lines[s.at]
		s.at++
		text = append(text, line)
		if strings.Contains(line, "-->") {
			break
		}
	}
	all := strings.TrimPrefix(strings.Join(text, "\n"), "<!--")
	all, _, _ = strings.Cut(all, "-->")
	return strings.TrimSpace(all)
}

func (s *scanner) fenced() *block {
	b := &block{line: s.at + 1, language: strings.TrimPrefix(s.lines[s.at], "```")}
	b.language, _, _ = strings.Cut(b.language, " ")
	for s.at++; s.at < len(s.lines) && !strings.HasPrefix(s.lines[s.at], "```"); s.at++ {
		b.text += s.lines[s.at] + "\n"
	}
	s.at++
	return b
}

func (s *scanner) indented() *block {
	b := &block{line: s.at + 1, language: "indented"}
	for ; s.at < len(s.lines); s.at++ {
		line := s.lines[s.at]
		if line != "" && !strings.HasPrefix(line, "    ") {
			break
		}
		b.text += strings.TrimPrefix(line, "    ") + "\n"
	}
	b.text = strings.TrimRight(b.text, "\n") + "\n"
	return b
}

// Commands returns the commands of a step of kind Run or Given that are to be run.
func (s *Step) Commands() (commands []string) {
	for _, command := range Commands(s.Text) {
		if program, _, _ := strings.Cut(command, " "); !slices.Contains(s.Except, program) {
			commands = append(commands, command)
		}
	}
	return commands
}

// Commands splits the text of a block into commands: lines, which a backslash at the end continues. Lines that
// are empty or comments are left out.
func Commands(text string) (commands []string) {
	command := ""
	for line := range strings.Lines(text) {
		command += line
		if strings.HasSuffix(line, "\\\n") {
			continue
		}
		if c := strings.TrimSpace(command); c != "" && !strings.HasPrefix(c, "#") {
			commands = append(commands, c)
		}
		command = ""
	}
	return commands
}

// Matches reports whether the output of commands is what a page shows. "..." in the page stands for any text.
func Matches(page, output string) bool {
	parts := strings.Split(strings.TrimSpace(page), "...")
	for k := range parts {
		parts[k] = regexp.QuoteMeta(parts[k])
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(strings.TrimSpace(output))
}
