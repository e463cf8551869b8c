// Package gpus is what placement looks at where machines have GPUs that items
// share: a machine's cpu and GPUs, the typical items that ask for them, and the
// fragment that such items leave unusable. The rules of FGD's authors and the
// learned model devices share it. It scores nothing.
package gpus
