/// <reference types="vite/client" />

declare module "viewer.wasm?url" {
  const url: string;
  export default url;
}

declare module "vixnn.wasm?url" {
  const url: string;
  export default url;
}
