package control

import (
	"context"

	"github.com/lnetd/lnetd/selftest/console"
)

type (
	// LstGroup is a group with its nodes.
	LstGroup = console.GroupInfo
	// LstGroupAddition is what came of add_group.
	LstGroupAddition = console.GroupAddition
	// LstGroupChange is what came of update_group.
	LstGroupChange = console.GroupChange
	// LstCount is nodes by state.
	LstCount = console.Count
	// LstGroupNode is a node and its state.
	LstGroupNode = console.NodeInfo
)

// LstAddGroup is the body of POST /v1/lst/add_group.
type LstAddGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// IDs are lists of NIDs with ranges, as lst takes them.
	IDs []string `json:"ids"`
}

// LstUpdateGroup is the body of POST /v1/lst/update_group: exactly one of Refresh,
// Clean and Remove.
type LstUpdateGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// Refresh asks inactive nodes again to join the session.
	Refresh bool `json:"refresh,omitempty"`
	// Clean drops the nodes in any of these states.
	Clean []LstState `json:"clean,omitempty"`
	// Remove drops the nodes of these lists.
	Remove []string `json:"remove,omitempty"`
}

// LstAddGroup makes a group and asks its nodes to join the session.
func (c *Client) LstAddGroup(ctx context.Context, r LstAddGroup) (LstGroupAddition, error) {
	return lstCall[LstGroupAddition](ctx, c, "add_group", r)
}

// LstDeleteGroup deletes a group.
func (c *Client) LstDeleteGroup(ctx context.Context, r LstNamed) (LstResult, error) {
	return lstCall[LstResult](ctx, c, "del_group", r)
}

// LstUpdateGroup changes a group.
func (c *Client) LstUpdateGroup(ctx context.Context, r LstUpdateGroup) (LstGroupChange, error) {
	return lstCall[LstGroupChange](ctx, c, "update_group", r)
}

// LstGroups lists the groups.
func (c *Client) LstGroups(ctx context.Context, key LstKey) ([]string, error) {
	r, err := lstCall[LstNames](ctx, c, "list_groups", Lst{Key: key})
	return r.Names, err
}

// LstGroup describes a group.
func (c *Client) LstGroup(ctx context.Context, r LstNamed) (LstGroup, error) {
	return lstCall[LstGroup](ctx, c, "list_group", r)
}

func (h *handlers) lstAddGroup(ctx context.Context, r *LstAddGroup) (LstGroupAddition, *Fault) {
	return onConsole(h, "add_group", func(c *console.Console) (LstGroupAddition, error) {
		return c.AddGroup(ctx, r.Key, r.Name, r.IDs)
	})
}

func (h *handlers) lstDeleteGroup(ctx context.Context, r *LstNamed) (LstResult, *Fault) {
	return onConsole(h, "del_group", func(c *console.Console) (LstResult, error) {
		return c.DeleteGroup(ctx, r.Key, r.Name)
	})
}

func (h *handlers) lstUpdateGroup(ctx context.Context, r *LstUpdateGroup) (LstGroupChange, *Fault) {
	given := 0
	for _, b := range []bool{r.Refresh, len(r.Clean) > 0, len(r.Remove) > 0} {
		if b {
			given++
		}
	}
	if given != 1 {
		return LstGroupChange{}, invalidRequest("exactly one of refresh, clean and remove is needed", nil)
	}
	return onConsole(h, "update_group", func(c *console.Console) (LstGroupChange, error) {
		switch {
		case r.Refresh:
			return c.RefreshGroup(ctx, r.Key, r.Name)
		case len(r.Clean) > 0:
			var mask LstState
			for _, s := range r.Clean {
				mask |= s
			}
			return c.CleanGroup(ctx, r.Key, r.Name, mask)
		}
		return c.RemoveFromGroup(ctx, r.Key, r.Name, r.Remove)
	})
}

func (h *handlers) lstGroups(_ context.Context, r *Lst) (LstNames, *Fault) {
	return onConsole(h, "list_group", func(c *console.Console) (LstNames, error) {
		names, err := c.Groups(r.Key)
		return LstNames{Names: names}, err
	})
}

func (h *handlers) lstGroup(_ context.Context, r *LstNamed) (LstGroup, *Fault) {
	return onConsole(h, "list_group", func(c *console.Console) (LstGroup, error) { return c.Group(r.Key, r.Name) })
}
