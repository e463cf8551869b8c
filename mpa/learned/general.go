package learned

import _ "embed"

//go:embed general.yaml
var general []byte

// General returns the shipped policy.
func General() *Policy {
	p, err := Parse("general.yaml", general)
	if err != nil {
		panic(err) // a test reads it
	}
	return p
}
