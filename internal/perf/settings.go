package perf

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// Setting is SETTING=VALUE as given by the user: a tunable of nodes, with its name in configuration
// files, or an environment variable, which has capital letters.
type Setting struct {
	Name, Value string
	set         func(*socklnd.Config) // nil: an environment variable
}

// tunables maps names to functions that set a tunable from text.
var tunables = map[string]func(c *socklnd.Config, value string) error{
	"credits":         number(func(c *socklnd.Config) *int { return &c.Tunables.Credits }),
	"peer_credits":    number(func(c *socklnd.Config) *int { return &c.Tunables.PeerCredits }),
	"busy_poll":       lasting(time.Microsecond, func(c *socklnd.Config) *time.Duration { return &c.BusyPoll }),
	"conns_per_peer":  number(func(c *socklnd.Config) *int { return &c.ConnsPerPeer }),
	"eager_ack":       number(func(c *socklnd.Config) *int { return &c.EagerAck }),
	"min_bulk":        number(func(c *socklnd.Config) *int { return &c.MinBulk }),
	"rx_buffer_size":  number(func(c *socklnd.Config) *int { return &c.RxBufferSize }),
	"tos":             number(func(c *socklnd.Config) *int { return &c.TOS }),
	"tx_buffer_size":  number(func(c *socklnd.Config) *int { return &c.TxBufferSize }),
	"keepalive":       lasting(time.Second, func(c *socklnd.Config) *time.Duration { return &c.Keepalive }),
	"keepalive_count": number(func(c *socklnd.Config) *int { return &c.KeepaliveCount }),
	"keepalive_idle":  lasting(time.Second, func(c *socklnd.Config) *time.Duration { return &c.KeepaliveIdle }),
	"keepalive_intvl": lasting(time.Second, func(c *socklnd.Config) *time.Duration { return &c.KeepaliveInterval }),
	"enable_csum":     truth(func(c *socklnd.Config) *bool { return &c.EnableChecksum }),
	"nagle":           truth(func(c *socklnd.Config) *bool { return &c.Nagle }),
	"nonblk_zcack":    truth(func(c *socklnd.Config) *bool { return &c.NonblockingZCAck }),
	"round_robin":     truth(func(c *socklnd.Config) *bool { return &c.RoundRobin }),
}

// number sets a tunable that is a number.
func number(of func(*socklnd.Config) *int) func(*socklnd.Config, string) error {
	return func(c *socklnd.Config, value string) (err error) {
		*of(c), err = strconv.Atoi(value)
		return err
	}
}

// truth sets a tunable that is true or false.
func truth(of func(*socklnd.Config) *bool) func(*socklnd.Config, string) error {
	return func(c *socklnd.Config, value string) (err error) {
		*of(c), err = strconv.ParseBool(value)
		return err
	}
}

// lasting sets a tunable that is a time, from a number of units.
func lasting(unit time.Duration, of func(*socklnd.Config) *time.Duration) func(*socklnd.Config, string) error {
	return func(c *socklnd.Config, value string) error {
		n, err := strconv.Atoi(value)
		*of(c) = time.Duration(n) * unit
		return err
	}
}

// Tunables returns the names of the tunables.
func Tunables() []string { return slices.Sorted(maps.Keys(tunables)) }

// variable matches names of environment variables.
var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// ParseSetting parses SETTING=VALUE. It returns an error if nodes would not accept it.
func ParseSetting(text string) (Setting, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return Setting{}, fmt.Errorf("%q is not SETTING=VALUE, such as GOMAXPROCS=1 or peer_credits=16", text)
	}
	s := Setting{Name: name, Value: value}
	if variable.MatchString(name) {
		return s, nil
	}
	set, ok := tunables[name]
	if !ok {
		return Setting{}, fmt.Errorf("%q is no tunable; there are %s, and variables of the environment, in capitals",
			name, strings.Join(Tunables(), ", "))
	}
	try := socklnd.DefaultConfig()
	if err := set(&try, value); err != nil {
		return Setting{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := try.Validate(); err != nil {
		return Setting{}, err
	}
	s.set = func(c *socklnd.Config) { _ = set(c, value) } // cannot fail: it was tried above
	return s, nil
}

// Variable reports whether the setting is an environment variable.
func (s *Setting) Variable() bool { return s.set == nil }

// String returns SETTING=VALUE.
func (s Setting) String() string { return s.Name + "=" + s.Value }

// apply changes the configuration of a driver.
func (s *Setting) apply(c *socklnd.Config) {
	if s.set != nil {
		s.set(c)
	}
}
