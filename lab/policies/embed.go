// Package policies holds the policy files of the models that only the laboratory has, and adds them to
// those that are shipped.
package policies

import (
	"embed"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
)

//go:embed *.yaml
var files embed.FS

func init() { policies.Files = append(policies.Files, files) }
