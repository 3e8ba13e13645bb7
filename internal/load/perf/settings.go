package perf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

// Setting is a setting that the user gives as SETTING=VALUE. SETTING is a tunable of socklnd, by its
// name in configuration files, or an environment variable, in capital letters.
type Setting struct {
	Name, Value string
	set         func(*socklnd.Config) // nil: an environment variable
}

// Tunables returns the sorted names of the tunables of socklnd.
func Tunables() (names []string) {
	for _, t := range socklnd.Table().Tunables {
		names = append(names, t.Parameter)
	}
	slices.Sort(names)
	return names
}

// variable matches names of environment variables.
var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// ParseSetting parses SETTING=VALUE. It returns an error if the tunable does not exist or does not
// accept the value.
func ParseSetting(text string) (Setting, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return Setting{}, fmt.Errorf("%q is not SETTING=VALUE, such as GOMAXPROCS=1 or peer_credits=16", text)
	}
	s := Setting{Name: name, Value: value}
	if variable.MatchString(name) {
		return s, nil
	}
	tunables := socklnd.Table().Tunables
	k := slices.IndexFunc(tunables, func(t lnd.Tunable) bool { return t.Parameter == name })
	if k < 0 {
		return Setting{}, fmt.Errorf("%q is not a tunable; the tunables are %s; names of environment variables are in capitals",
			name, strings.Join(Tunables(), ", "))
	}
	n, err := strconv.ParseInt(value, 0, 64)
	if yes, wrong := strconv.ParseBool(value); tunables[k].Kind == lnd.Bool && err != nil && wrong == nil {
		n, err = 0, nil
		if yes {
			n = 1
		}
	}
	if err != nil {
		return Setting{}, fmt.Errorf("%s: %w", name, err)
	}
	try := socklnd.DefaultConfig()
	if err := try.Set(name, n); err != nil {
		return Setting{}, err
	}
	if err := try.Validate(); err != nil {
		return Setting{}, err
	}
	s.set = func(c *socklnd.Config) { _ = c.Set(name, n) } // cannot fail: it was tried above
	return s, nil
}

// Variable reports whether the setting is an environment variable.
func (s *Setting) Variable() bool { return s.set == nil }

// String returns SETTING=VALUE.
func (s Setting) String() string { return s.Name + "=" + s.Value }

// apply sets the tunable in c. It does nothing for an environment variable.
func (s *Setting) apply(c *socklnd.Config) {
	if s.set != nil {
		s.set(c)
	}
}
