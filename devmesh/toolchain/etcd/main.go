// Command etcd is the etcd server as its module publishes it, built where no binary of a sound version is installed.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
