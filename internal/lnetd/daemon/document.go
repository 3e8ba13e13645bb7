package daemon

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// plan describes the effect of a document on the node before it is applied.
type plan struct {
	want     config.State // the state that the node must reach
	warnings config.Problems
	// around is the parsed document, which may also configure lnetd itself. It is nil for a
	// document that lists what to delete.
	around *config.Config
	// given holds the keys of the section "lnetd" that the document sets. Other keys keep their
	// values. If given is nil, the document replaces the whole section, so that the keys that it
	// omits get their defaults.
	given map[string]bool
	// waits is true if no "ip2nets" rule of the document matches this host yet, so that the
	// document must be resolved again when an interface appears.
	waits bool
	// kept holds the driver changes that are not applied because the drivers have NIs. They need a
	// restart.
	kept []config.Step
}

func (b *backend) Configuration(ctx context.Context) (api.Configuration, error) {
	have, err := b.node.runningState(ctx)
	if err != nil {
		return api.Configuration{}, err
	}
	return b.shown(&have, b.daemon.section(nil, nil)), nil
}

// up returns the state of the running node, or the error "Network is down" if LNet is not configured.
func (b *backend) up(ctx context.Context) (config.State, error) {
	if b.LNetDown() {
		return config.State{}, networkDown()
	}
	return b.node.runningState(ctx)
}

// ChangeConfiguration implements server.Backend. It sorts the peers of the configurations before and
// after the change by primary NID, so that a comparison shows only the change.
func (b *backend) ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	done, err := b.changeConfiguration(ctx, r)
	err = b.numbered(ctx, &r.Document, err)
	sortPeers(done.Before.Peers)
	sortPeers(done.After.Peers)
	return done, err
}

func sortPeers(peers []api.ConfiguredPeer) {
	slices.SortFunc(peers, func(a, b api.ConfiguredPeer) int { return a.Primary.Compare(b.Primary) })
}

func (b *backend) changeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	if r.Dry {
		return b.tryDocument(ctx, &r)
	}
	have, err := b.up(ctx)
	if err != nil {
		return api.ConfigurationChanged{}, err
	}
	var done api.ConfigurationChanged
	var p plan
	var steps []config.Step
	large := len(r.Text) >= collectFrom
	busy := b.alone(ctx, &r.Document, func() {
		done, p, steps, err = b.planned(ctx, &have, &r)
		if err == nil && large { // the steps need much memory, too
			err = b.applyPlan(ctx, &r, p, steps, &done)
		}
	})
	if busy != nil {
		return done, busy
	}
	if err == nil && !large { // other documents need not wait for the steps
		err = b.applyPlan(ctx, &r, p, steps, &done)
	}
	return done, err
}

// applyPlan applies the steps of the plan p for the document of r, and completes done.
func (b *backend) applyPlan(ctx context.Context, r *api.ConfigurationChange, p plan, steps []config.Step, done *api.ConfigurationChanged) (err error) {
	if err := b.node.apply(ctx, steps, r.Wait); err != nil {
		return err
	}
	if r.Mode == api.ModeReplace {
		b.node.pending = nil
		b.node.unsettled.Store(false)
	}
	if p.waits {
		b.node.pending = append(b.node.pending, *p.around)
	}
	if p.around != nil {
		for _, left := range b.daemon.putParts(p.around, p.given) {
			if !slices.Contains(done.Restart, left) {
				done.Restart = append(done.Restart, left)
			}
		}
	}
	b.node.log.Info("configuration changed by a document", "name", r.Name, "mode", string(r.Mode), "steps", len(steps))
	done.Warnings = problemsOf(slices.Concat(p.warnings, b.node.engines.waitingOf(r.Name, p.around)))
	if !r.Minimal {
		done.After, err = b.Configuration(ctx)
	}
	return err
}

// tryDocument returns what the document of a dry run would change. It blocks other changes of the
// node only while it reads the node's state.
func (b *backend) tryDocument(ctx context.Context, r *api.ConfigurationChange) (done api.ConfigurationChanged, err error) {
	var have config.State
	if busy := b.InTurn(ctx, func() { have, err = b.up(ctx) }); busy != nil {
		return done, busy
	}
	if err != nil {
		return done, err
	}
	if busy := b.alone(ctx, &r.Document, func() { done, err = b.foreseen(ctx, &have, r) }); busy != nil {
		return done, busy
	}
	return done, err
}

// foreseen returns what the document of r would change in a node with state have, together with
// warnings about interfaces that are not usable now.
func (b *backend) foreseen(ctx context.Context, have *config.State, r *api.ConfigurationChange) (api.ConfigurationChanged, error) {
	done, p, _, err := b.planned(ctx, have, r)
	if err == nil {
		waits, refused := b.node.drivers.foresee(r.Name, &p.want, have.NIs, "with --wait it comes up when its interface can be used")
		waits = append(waits, b.node.engines.waitingOf(r.Name, p.around)...)
		done.Warnings = problemsOf(slices.Concat(p.warnings, waits, refused))
	}
	if err == nil && !r.Minimal {
		before, after := namedByNIDs(have, &p.want)
		done.Before = b.shown(&before, b.daemon.section(nil, nil))
		done.After = b.shown(&after, b.daemon.section(p.around, p.given))
	}
	return done, err
}

const (
	// collectFrom is the length in bytes from which a document counts as large. While a large
	// document is processed, garbage is collected more often. Afterwards memory is returned to the
	// system, before the next document needs as much.
	collectFrom = 1 << 20
	// collectPercent is the percentage by which the heap may grow between collections while a
	// large document is processed. It applies to the whole process, because the garbage is
	// created inside the YAML parser, which has no other bound. It costs only CPU time, because
	// messages allocate nothing. With 25 percent, the deletion of 100,000 peers takes 7.0 to 7.6 s of
	// CPU instead of 5.6 to 6.0, and at most 420 MB instead of 519.
	collectPercent = 50
)

// alone waits until no other document is processed, and then calls do, which processes d. If ctx ends
// first, alone returns the cause and does not call do.
func (b *backend) alone(ctx context.Context, d *api.Document, do func()) error {
	return b.documents.inTurn(ctx, func() {
		if len(d.Text) >= collectFrom {
			defer debug.FreeOSMemory()
			defer debug.SetGCPercent(debug.SetGCPercent(collectPercent))
		}
		do()
	})
}

// planned returns the plan of the document of r for a node in state have, the steps that apply the
// plan, and in done the parts of the answer that are known before the steps are applied.
func (b *backend) planned(ctx context.Context, have *config.State, r *api.ConfigurationChange) (
	done api.ConfigurationChanged, p plan, steps []config.Step, err error,
) {
	if p, err = b.plan(ctx, have, r); err != nil {
		return done, p, nil, problemsFault(r.Name, err, p.warnings...)
	}
	if err := b.node.drivers.checkTwice(r.Name, &p); err != nil {
		return done, p, nil, problemsFault(r.Name, err, p.warnings...)
	}
	if err := context.Cause(ctx); err != nil {
		return done, p, nil, err
	}
	steps = config.Diff(have, &p.want, b.node.drivers.Options())
	for _, s := range steps {
		done.Commands = append(done.Commands, b.node.engines.commandStep(s, p.want.Drivers).Commands()...)
	}
	if p.around != nil {
		var changes []string
		changes, done.Restart = b.daemon.foresee(p.around, p.given)
		done.Commands = append(done.Commands, changes...)
	}
	for _, s := range p.kept {
		done.Restart = append(done.Restart, s.String())
	}
	if !r.Minimal && !r.Dry {
		done.Before = b.shown(have, b.daemon.section(nil, nil))
	}
	return done, p, steps, nil
}

// checkTwice returns an error if an NI of the document name has the same interface or NID as another
// NI of the document or of the node on the same net.
func (t Drivers) checkTwice(name string, p *plan) error {
	if p.around == nil {
		return nil
	}
	for _, nis := range [][]config.NI{p.around.NIs, p.want.NIs} {
		if refused := t.twice(name, nis); len(refused) > 0 {
			return refused
		}
	}
	return nil
}

// plan parses the document of r and returns its effect on a node in state have.
func (b *backend) plan(ctx context.Context, have *config.State, r *api.ConfigurationChange) (plan, error) {
	switch r.Mode {
	case api.ModeDelete:
		return b.planDeletion(ctx, have, &r.Document)
	case api.ModeReplace:
		return b.planReplacement(ctx, have, r)
	default:
		return b.planAddition(ctx, have, r)
	}
}

func (b *backend) planAddition(ctx context.Context, have *config.State, r *api.ConfigurationChange) (p plan, err error) {
	c, err := config.ParseOver(ctx, r.Name, []byte(r.Text), b.node.drivers.Options(), have)
	if err != nil {
		return p, err
	}
	if p.waits, err = b.settle(r, &c); err != nil {
		return plan{}, err
	}
	c.Warnings = append(c.Warnings, warnOfCPTs(r.Name, c.NIs, b.node.engines.cpts)...)
	p.around, p.given, p.kept = &c, lnetdKeys(&c), b.node.addition(&c, have)
	c.Peers = b.node.withoutOwn(c.Peers, slices.Concat(have.NIs, c.NIs))
	if err := b.node.keepPrimaries(ctx, c.Peers); err != nil {
		return plan{}, err
	}
	var more config.Problems
	p.want, more, err = config.Add(have, r.Name, &c, b.node.drivers.Options())
	if len(c.LNDTimeouts) > 0 {
		p.want.SetLNDTimeouts(c.LNDTimeouts)
		p.want.NIs = b.node.engines.resolved(p.want.NIs, p.want.Drivers, p.want.Drivers)
	}
	p.warnings = slices.Concat(c.Warnings, more)
	return p, err
}

func (b *backend) planReplacement(ctx context.Context, have *config.State, r *api.ConfigurationChange) (p plan, err error) {
	c, err := config.ParseInstead(ctx, r.Name, []byte(r.Text), b.node.drivers.Options(), &b.node.loaded.Load().Given.CommandLine)
	if err != nil {
		return p, err
	}
	if !c.Given.Any {
		return p, emptyFault(r.Name)
	}
	if p.waits, err = b.settle(r, &c); err != nil {
		return plan{}, err
	}
	c.Warnings = append(c.Warnings, warnOfCPTs(r.Name, c.NIs, b.node.engines.cpts)...)
	if c.State, err = b.node.replacement(ctx, &c, have); err != nil {
		return plan{}, err
	}
	all := c.Peers
	c.Peers = slices.DeleteFunc(slices.Clone(all), b.node.isFound)
	p.around = &c
	var more config.Problems
	p.want, more, err = config.Replace(have, r.Name, &c)
	if forgets := config.Forgets(have, &p.want, b.node.drivers.Options()); len(c.Peers) < len(all) {
		c.Peers = slices.DeleteFunc(all, func(o config.Peer) bool { return b.node.isFound(o) && !forgets(&o) })
		p.want, more, err = config.Replace(have, r.Name, &c)
	}
	p.warnings = slices.Concat(c.Warnings, more)
	return p, err
}

// settle resolves c, the document of r, for this host. If no "ip2nets" rule of c matches this host,
// settle returns an error, unless r is a dry run or asks lnetd to wait. In these cases it adds a
// warning to c and reports that c waits for an interface.
func (b *backend) settle(r *api.ConfigurationChange, c *config.Config) (waits bool, _ error) {
	s, err := b.node.resolvedState(c)
	for _, text := range b.node.mismatches(&c.Site) {
		c.Warnings = append(c.Warnings, config.ProblemAt(r.Name, c.Site.Where, text, mismatchRemedy))
	}
	if err != nil {
		if !fitsNothing(err) || !r.Wait && !r.Dry {
			return false, placedFault(r.Name, c, err)
		}
		remedy := rulesWait
		if r.Dry {
			remedy = "with --wait lnetd waits for an interface that matches a rule"
		}
		c.Warnings = append(c.Warnings, config.ProblemAt(r.Name, c.Site.Where, noRules+": "+causeOf(err), remedy))
	}
	c.State = s
	return err != nil, nil
}

// placedFault returns the error of the document c whose "ip2nets" rules do not match this host. It
// adds the position of a rule and the warnings about the rest of the document to err.
func placedFault(name string, c *config.Config, err error) error {
	f, ok := errors.AsType[*api.Fault](err)
	if !ok {
		return err
	}
	where, cause, remedy := c.Site.Where, f.Cause, f.Remedy
	if e, ok := errors.AsType[*config.RuleError](err); ok {
		where, cause, remedy = e.Where, e.Err.Error(), e.Remedy
	}
	placed := *f
	placed.Remedy = "" // the problem has it, after the line
	problems := config.Problems{config.ProblemAt(name, where, f.Text+": "+cause, remedy)}
	placed.Problems = problemsOf(config.WithWarnings(problems, c.Warnings))
	return &placed
}

// noRules is lnetctl's message if no ip2nets rule matches this host (lnetctl 10).
const noRules = "No ip2nets rules applied"

// rulesWait tells the operator what happens to rules that do not match this host.
const rulesWait = "lnetd waits for an interface that matches a rule"

// emptyFault returns the error of an empty document. Such a document is rejected, because it would
// delete the whole configuration and may be a file that is just being written.
func emptyFault(name string) error {
	return &api.Fault{
		Code: api.CodeConfigInvalid, Errno: -int(syscall.EINVAL), Text: "the document " + name + " is empty; nothing is changed",
		Cause: "applying it would delete the whole configuration of the node", Remedy: "to delete everything, use: lnetdctl lnet unconfigure",
	}
}

// resolvedState returns the state that c describes on this host. If no "ip2nets" rule matches, it
// returns the state without the rules and an error for which fitsNothing is true.
func (t *nodeTask) resolvedState(c *config.Config) (config.State, error) {
	s := c.State
	if c.NeedsMachine() {
		machine, err := t.interfaces()
		if err != nil {
			return s, err
		}
		if s, err = c.Settle(machine); err != nil {
			return s, settleFault(err)
		}
	}
	return s, nil
}

// settleFault returns the error for an operator if the "ip2nets" rules do not match this host.
func settleFault(err error) error {
	f := api.Fault{
		Code: api.CodeConfigInvalid, Errno: -int(syscall.EINVAL), Text: noRules,
		Remedy: "compare the rules in \"ip2nets\" with the output of \"ip addr\", or use --wait to wait for an interface",
	}
	if errors.Is(err, lnet.ErrNoMatch) {
		f.Errno = -int(syscall.ENOENT)
	}
	if e, ok := errors.AsType[*config.RuleError](err); ok {
		f.Remedy = e.Remedy
	}
	return f.Because(err)
}

// problemsFault returns the fault that lists the problems in err and the warnings about the document
// name. If err contains no problems of a document, it is returned unchanged.
func problemsFault(name string, err error, warnings ...*config.Problem) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return err
	}
	problems = config.WithWarnings(problems, warnings)
	f := api.Fault{
		Code: api.CodeConfigInvalid, Errno: -int(syscall.EINVAL), Text: "the document " + name + " has errors; nothing is changed",
		Problems: problemsOf(problems),
	}
	return f.Because(problems)
}

func problemsOf(list config.Problems) []api.Problem {
	out := []api.Problem{}
	for _, p := range list {
		out = append(out, *p)
	}
	return out
}
