package main

import "github.com/spf13/cobra"

func (p *program) netCommand() *cobra.Command {
	return group("net", "the node's nets and NIs", p.netShowCommand(), p.netSetCommand())
}
