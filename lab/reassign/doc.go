// Package reassign moves processes between machines so that the load, its balance and the
// moves together cost least: the machine reassignment problem of the ROADEF/EURO challenge 2012.
package reassign
