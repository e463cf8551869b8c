// Package scheme makes SigmaArgs known to the scheduler that imports it: its
// configuration file is then decoded with Sigma's arguments checked field by
// field, and a profile without them gets the defaults.
package scheme

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	v1 "github.com/sigma-scheduler/sigma/plugins/apis/config/v1"
)

// The scheduler filled its scheme before this package's builders were complete.
func init() {
	utilruntime.Must(config.AddToScheme(schedscheme.Scheme))
	utilruntime.Must(v1.AddToScheme(schedscheme.Scheme))
}
