// Package topology describes what one node knows of its LNet: its NIs and nets, peers with their rails, gateways and
// remote nets, each with its state. New, Builder.Add and Builder.Picture make a Picture of what the control interface
// reports. The Picture can be written as a tree in text, as a mermaid flowchart and as SVG, and it is the JSON form of
// itself. Shape, colour and text each show the state alone, so no reader needs to tell colours apart.
//
// lnetdctl and the status page use the package. A Picture is bounded: of NIs and peers it has those with problems
// and the first or busiest ones, and the numbers of the others. The package does no I/O and starts no goroutines.
package topology
