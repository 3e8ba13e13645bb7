package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/modparam"
)

// legacyName is what the program is installed as to be that command alone.
const legacyName = "lnet_legacy2yaml"

// Exit statuses of legacy2yaml.
const (
	exitNoData   = 1 // misused, or there is nothing to convert
	exitBadInput = 2 // a text is wrong, or a file cannot be read or written
)

// legacy is what was asked of legacy2yaml.
type legacy struct {
	modprobe, ip2nets, routes, networks []string
	output, defaultHop                  string
}

func (p *program) legacyCommand() *cobra.Command {
	var l legacy
	name := "legacy2yaml"
	if p.name == legacyName {
		name = legacyName
	}
	c := command(manual{
		use:   name + " [OPTION ...] [INLINE]",
		short: "turn module parameters into YAML for import",
		long: `Reads what configured LNet before there was YAML, prints the same as YAML, and
changes nothing: options of lnet in files of /etc/modprobe.d, the strings ip2nets,
routes and networks, lines of lnet_routes.conf. Patterns and ranges stay as they are.
INLINE is such a text; without it standard input is read, unless that is a terminal.
lnetd need not run. "import --modprobe" has lnetd take such a file as it is.

Of ip2nets in YAML the first rule for a net holds that fits, of the module parameter
all that fit. Installed under the name lnet_legacy2yaml lnetdctl is this command.`,
		example: `lnetdctl legacy2yaml -m /etc/modprobe.d/lustre.conf
lnetdctl legacy2yaml networks=tcp(eth0),tcp1(eth1)
lnetdctl legacy2yaml -r /etc/lnet_routes.conf --default-hop`,
		exits: `0    success
1    misused, or there is nothing to convert
2    a text is wrong, or a file cannot be read or written`,
	}, func(_ context.Context, operands []string) error { return p.legacy2yaml(&l, operands) })
	f := c.Flags()
	f.StringArrayVarP(&l.modprobe, "modprobe", "m", nil, "`FILE` of /etc/modprobe.d")
	f.StringArrayVarP(&l.ip2nets, "ip2nets", "i", nil, "`FILE` with a string ip2nets")
	f.StringArrayVarP(&l.routes, "routes", "r", nil, "`FILE` with a string routes, or lines of lnet_routes.conf")
	f.StringArrayVarP(&l.networks, "networks", "n", nil, "`FILE` with a string networks")
	f.StringVarP(&l.output, "output", "o", "", "write to `FILE`, not to standard output")
	f.StringVar(&l.defaultHop, "default-hop", "", "`HOP` count of routes that have none; 1 if it is left out")
	hop := f.Lookup("default-hop")
	hop.NoOptDefVal = "1"
	hop.Annotations = map[string][]string{optionalLevel: nil}
	return c
}

// isLegacy tells commands with the exit statuses of lnet_legacy2yaml.
func isLegacy(c *cobra.Command) bool {
	return c != nil && (c.Name() == "legacy2yaml" || c.Name() == legacyName)
}

// legacyFailed says what is wrong.
func (p *program) legacyFailed(st int, err error) error {
	if p.json {
		p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -int(unix.EINVAL), Text: err.Error()})
	} else {
		fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
	}
	return status(st)
}

func (p *program) legacy2yaml(l *legacy, operands []string) error {
	hop, ok := parseNumber(l.defaultHop)
	switch {
	case l.defaultHop != "" && (!ok || hop < 1 || hop > 255):
		return p.legacyFailed(exitNoData, fmt.Errorf("default-hop '%s' is out of range: it is 1 to 255", l.defaultHop))
	case len(operands) > 1:
		return p.legacyFailed(exitNoData, fmt.Errorf("unexpected operand '%s': one text is read, in quotes", operands[1]))
	}
	texts, err := p.legacyTexts(l, operands)
	if err != nil {
		return p.legacyFailed(exitBadInput, err)
	}
	yaml, err := modparam.Convert(texts, int(hop))
	switch {
	case errors.Is(err, modparam.ErrNoData):
		return p.legacyFailed(exitNoData, err)
	case err != nil:
		return p.legacyFailed(exitBadInput, err)
	case l.output != "":
		err = os.WriteFile(l.output, yaml, 0o644)
	case p.json:
		err = p.printJSON(map[string]string{"yaml": string(yaml)})
	default:
		_, err = p.stdout.Write(yaml)
	}
	if err != nil {
		return p.legacyFailed(exitBadInput, err)
	}
	return nil
}

// legacyTexts reads all files, and standard input or the operand.
func (p *program) legacyTexts(l *legacy, operands []string) ([]modparam.Text, error) {
	var texts []modparam.Text
	for _, files := range []struct {
		names []string
		kind  modparam.Kind
	}{{l.modprobe, modparam.Modprobe}, {l.ip2nets, modparam.IP2Nets}, {l.routes, modparam.Routes}, {l.networks, modparam.Networks}} {
		for _, name := range files.names {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			texts = append(texts, modparam.Text{Name: name, Kind: files.kind, Data: data})
		}
	}
	if len(operands) > 0 {
		return append(texts, modparam.Text{Name: "operand", Kind: modparam.Mixed, Data: []byte(operands[0])}), nil
	}
	if f, ok := p.stdin.(*os.File); p.stdin == nil || ok && isTerminal(f) {
		return texts, nil
	}
	data, err := io.ReadAll(p.stdin)
	return append(texts, modparam.Text{Name: "standard input", Kind: modparam.Mixed, Data: data}), err
}
