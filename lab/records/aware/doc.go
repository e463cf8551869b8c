// Package aware measures what AWARE (Qiu et al., USENIX ATC 2023) claims: bootstrapping,
// retraining and adaptation to unseen applications, on the train side's generated
// applications, and what its agent is worth beside the project's own on the test side.
package aware
