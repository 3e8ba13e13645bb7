package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/modparam"
)

// legacyName is the name of Lustre's program. If lnetdctl is called by this name, it only converts legacy
// configurations.
const legacyName = "lnet_legacy2yaml"

// Exit statuses of legacy2yaml.
const (
	exitNoData   = 1 // a usage error, or no data to convert
	exitBadInput = 2 // a text is invalid, or a file cannot be read or written
)

// legacy holds the options of the command "legacy2yaml".
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
		long: `Converts the old text configuration of LNet to YAML and prints it; nothing is changed.
The input is options of lnet and its drivers from /etc/modprobe.d, the strings ip2nets,
routes and networks, or lines of lnet_routes.conf. Patterns and ranges are kept. INLINE
is such a text; without it standard input is read, unless that is a terminal. lnetd need
not run. To load a modprobe file without converting it, use "import --modprobe". Options
that lnetctl's YAML cannot express appear in the section "lnetd".

YAML and module parameters differ in meaning. In YAML, the first ip2nets rule for a net
that matches applies, on the interfaces with matching addresses; as a module parameter,
all rules apply that match any address of the node. In YAML, a route whose gateway is
this node does not make the node a router. If a string occurs twice in modprobe files,
both are converted; kernels use the last one.

If lnetdctl is installed as lnet_legacy2yaml, it runs this command.`,
		example: `lnetdctl legacy2yaml -m /etc/modprobe.d/lustre.conf
lnetdctl legacy2yaml networks=tcp(eth0),tcp1(eth1)
lnetdctl legacy2yaml -r /etc/lnet_routes.conf --default-hop`,
		exits: `0    success
1    the command line is wrong, or there is nothing to convert
2    the input has errors, or a file cannot be read or written`,
	}, func(_ context.Context, operands []string) error { return p.legacy2yaml(&l, operands) })
	f := c.Flags()
	f.StringArrayVarP(&l.modprobe, "modprobe", "m", nil, "`FILE` in the format of /etc/modprobe.d")
	f.StringArrayVarP(&l.ip2nets, "ip2nets", "i", nil, "`FILE` with an ip2nets string")
	f.StringArrayVarP(&l.routes, "routes", "r", nil, "`FILE` with a routes string, or lines of lnet_routes.conf")
	f.StringArrayVarP(&l.networks, "networks", "n", nil, "`FILE` with a networks string")
	f.StringVarP(&l.output, "output", "o", "", "write to `FILE` instead of standard output")
	f.StringVar(&l.defaultHop, "default-hop", "", "`HOP` count of routes without one (1 if the number is omitted)")
	hop := f.Lookup("default-hop")
	hop.NoOptDefVal = "1"
	hop.Annotations = map[string][]string{optionalLevel: nil}
	return c
}

// isLegacy reports whether c is the command "legacy2yaml", which has the exit statuses of lnet_legacy2yaml.
func isLegacy(c *cobra.Command) bool {
	return c != nil && (c.Name() == "legacy2yaml" || c.Name() == legacyName)
}

// legacyFailed prints an error of "legacy2yaml" and returns the exit status st.
func (p *program) legacyFailed(st int, err error) error {
	if p.json {
		p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -int(unix.EINVAL), Text: err.Error()})
	} else {
		fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
		p.advise(&api.Fault{Code: api.CodeRequestInvalid})
	}
	return status(st)
}

func (p *program) legacy2yaml(l *legacy, operands []string) error {
	hop, ok := parseNumber(l.defaultHop)
	switch {
	case l.defaultHop != "" && (!ok || hop < 1 || hop > 255):
		return p.legacyFailed(exitNoData, fmt.Errorf("--default-hop '%s' is not within 1 to 255", l.defaultHop))
	case len(operands) > 1:
		return p.legacyFailed(exitNoData, fmt.Errorf("unexpected operand '%s': give the whole text as one quoted operand", operands[1]))
	}
	texts, err := p.legacyTexts(l, operands)
	if err != nil {
		return p.legacyFailed(exitBadInput, err)
	}
	yaml, warnings, err := modparam.Convert(texts, int(hop))
	for _, w := range warnings {
		p.warn(w.Error())
	}
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

// legacyTexts reads the texts to convert: the files that options name, and the file that the operand names or
// standard input. All texts together may be as long as a document.
func (p *program) legacyTexts(l *legacy, operands []string) (texts []modparam.Text, err error) {
	room := api.DocumentMax
	read := func(name string, kind modparam.Kind, from io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(from, int64(room)+1))
		switch {
		case err != nil:
			return err
		case len(data) > room:
			return fmt.Errorf("%s: the input is longer than %d MiB; split it", name, api.DocumentMax>>20)
		}
		room -= len(data)
		texts = append(texts, modparam.Text{Name: name, Kind: kind, Data: data})
		return nil
	}
	for _, files := range []struct {
		names []string
		kind  modparam.Kind
	}{{l.modprobe, modparam.Modprobe}, {l.ip2nets, modparam.IP2Nets}, {l.routes, modparam.Routes}, {l.networks, modparam.Networks}} {
		for _, name := range files.names {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			err = read(name, files.kind, f)
			_ = f.Close()
			if err != nil {
				return nil, err
			}
		}
	}
	if len(operands) > 0 {
		err = read("operand", modparam.Mixed, strings.NewReader(operands[0]))
		return texts, err
	}
	if f, ok := p.stdin.(*os.File); p.stdin == nil || ok && isTerminal(f) {
		return texts, nil
	}
	err = read("standard input", modparam.Mixed, p.stdin)
	return texts, err
}
