// One lease by its name, as the command line links to it.
import { useNavigate, useParams } from "@tanstack/react-router";
import type { ReactElement } from "react";
import { useAddress } from "../state/search";
import { Title } from "./Title";
import { Why } from "./Why";

export function LeasePage(): ReactElement {
  const { _splat: lease = "" } = useParams({ strict: false }) as { _splat?: string };
  const [address] = useAddress();
  const navigate = useNavigate();
  return (
    <>
      <Title name={lease} parent={["/groups", "Groups"]} />
      <Why group={address["group"] ?? ""} lease={lease} lag={undefined} onClose={() => void navigate({ to: "/groups" })} />
    </>
  );
}
