// Command man writes the manual pages of liblnetd from its header: a page for each group of functions,
// and links for the others.
//
//	man HEADER DIRECTORY
//
// The comments in lnetd.h are the contracts. text has what pages say in addition, in macros of man, and the overview
// lnetd.3. examples has their examples, complete programs or functions. deploy/packages/build and "make liblnetd" call
// the command.
package main
